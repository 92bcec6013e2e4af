"""Queries and batch jobs on Apache Spark: the second engine (`shuffledp.spark`)."""

"""Queries about a column of values: a folder for each, and what they share.

catalogue.py  every query; a new one is a folder and a line there
base.py       what a query is, and what it declares
options.py    the options that every query takes
calls.py      the functions that callers use, made from the declarations: shuffledp.count, …
texts.py      arguments as they are written in a terminal
records.py    JSON that several queries share
checks.py     checks of labels, numbers and probabilities
ratios.py     intervals of ratios of two private numbers

Each folder has protocol.py (how the query is answered), planner.py (its parameters), query.py (its
declaration) and, where it has its own, result.py. `shuffledp.engines` runs queries.
"""

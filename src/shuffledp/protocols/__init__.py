"""What every protocol promises: encoder, cells, decoder; reports, views and results."""

"""The interface of every protocol (encoder, cells, decoder), reports, views and results."""

"""What one organisation needs to run its part: keys, tokens, configuration, introductions."""

"""The decoder-only model, its attention and its key/value cache."""

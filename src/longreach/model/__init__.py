"""The models: decoder-only, and encoder-decoder; their attention and key/value cache."""

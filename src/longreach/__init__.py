"""longreach: how far past its training length a transformer reaches, and why it stops there."""

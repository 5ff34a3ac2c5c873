"""Measurements: a model and a task in, rows out, with the value of every sequence behind them."""

"""Benchmarks of picture and clip generation: methods by window, the mechanism behind them, and quality measures."""

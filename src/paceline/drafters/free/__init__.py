"""Level 0: drafters that need no training."""

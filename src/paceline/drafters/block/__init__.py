"""Level 3: drafters that guess a whole block in one pass."""

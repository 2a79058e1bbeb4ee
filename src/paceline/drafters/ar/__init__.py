"""Level 1: drafters that guess token by token, each guess after the last."""

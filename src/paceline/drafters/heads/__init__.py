"""Levels 1 and 2: heads on the target's last state, and small masked models that guess several places in one pass."""

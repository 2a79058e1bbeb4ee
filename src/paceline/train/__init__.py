"""Training: one loop (`loop`), recipes, the bundled target (`target`) and its `lm` drafter (`language`)."""

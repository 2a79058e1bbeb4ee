"""How drafters are measured: arms answer the same prompts in turn, and every number has one definition."""

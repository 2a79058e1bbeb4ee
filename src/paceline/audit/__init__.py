"""Is it lossless? Greedy identity with a control, laws at T > 0, foreign samplers and foreign engines' logs."""

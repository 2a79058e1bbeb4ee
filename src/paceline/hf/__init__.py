"""Stock transformers decoders behind the target protocol: caches, masks, sessions, packed linears."""

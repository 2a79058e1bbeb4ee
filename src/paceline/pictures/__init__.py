"""Pictures and clips as grids of codes: what is drawn, its caption, and the codebook between pixels and codes."""

"""Pictures and clips as grids of codes: what is drawn, how it is described, and the codebook between pixels and codes."""

"""An OpenAI-compatible server over the loop: parsing, pictures, one engine thread, replies, metrics, a page."""

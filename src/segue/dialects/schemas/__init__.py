"""JSON Schemas of tools and outputs: cleaned up, merged, and written in the flavour that each target accepts."""

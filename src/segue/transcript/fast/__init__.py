"""Fast paths of adopting and rendering, and the one switch for all fast paths."""

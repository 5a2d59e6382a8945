"""The Gemini Developer API (and its Vertex paths), as strict as the real one: rules GEM-01 … GEM-57."""

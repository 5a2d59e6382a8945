"""Gemini generateContent: contents of parts, with thought signatures on the parts themselves."""

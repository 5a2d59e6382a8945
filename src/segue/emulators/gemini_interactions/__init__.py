"""Gemini's Interactions API, as strict as what is known of the real one: rules INT-02 … INT-11."""

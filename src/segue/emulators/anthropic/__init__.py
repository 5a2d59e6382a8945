"""The Anthropic Messages API, as strict as the real one: rules ANT-01 … ANT-96 of the rulebook."""

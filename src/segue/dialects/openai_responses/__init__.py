"""OpenAI Responses: a list of items, with sealed reasoning."""

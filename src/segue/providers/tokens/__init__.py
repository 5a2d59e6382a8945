"""Tokens of a request before it is sent: estimated offline, counted by the provider, compared with the model's limit."""

"""A strict stand-in for api.mistral.ai: chat completions, models and embeddings.

Requests pass two gates, as in the original: a schema that forbids every unknown field (422), then the message
validator, whose rules depend on the tokenizer version of the model (400).
"""

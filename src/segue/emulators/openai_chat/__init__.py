"""OpenAI Chat Completions, with models and embeddings: a strict stand-in, usable for compatible servers by `Profile`."""

"""Claude at Microsoft: Anthropic's own API under another address, without a list of models."""

"""Claude Platform on AWS: Anthropic's own API, signed or with a key, for one workspace."""

"""OpenAI's models at Microsoft: the v1 API and the older paths of deployments, with content filters."""

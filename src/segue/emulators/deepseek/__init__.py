"""A strict stand-in for api.deepseek.com: OpenAI's Chat Completions behind a typed parser, with reasoning that must
come back once tools are in play."""

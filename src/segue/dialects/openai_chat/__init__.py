"""OpenAI Chat Completions, and the many servers that speak it with rules of their own."""

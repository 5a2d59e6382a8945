"""The OpenAI-like half of an Ollama server: requests are translated to native ones, answers back."""

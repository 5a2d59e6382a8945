"""A strict stand-in for an Ollama server: its native API, the management of its models, and its OpenAI-like /v1.

The server itself does not check order, pairs or ids of messages (OLL-03, OLL-06): a conversation that makes no sense
is answered all the same. What it refuses are values of the wrong type, in the words of Go's JSON decoder, and things
that the chosen model cannot do.
"""

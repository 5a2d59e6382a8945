"""OpenAI Responses: a strict stand-in, stateless and with stored responses."""

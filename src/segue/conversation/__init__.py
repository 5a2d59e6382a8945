"""The language: what a conversation is made of, as frozen values that know no provider."""

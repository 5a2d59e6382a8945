"""The emulated model: who answers, what is said and called, facts about models, tokens, the cache of prompts."""

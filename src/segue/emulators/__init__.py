"""Strict stand-ins for the provider APIs: they refuse what the real ones refuse, in the same words.

They are written from the providers' published behaviour alone and import nothing of segue, so that they are a
second opinion on everything segue sends, and usable for testing any other client.
"""

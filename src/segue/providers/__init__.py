"""The addresses: what is known about models and the places that serve them, as data."""

"""The conversations of clients: which one a request belongs to, what it refers to, and what is known of it."""

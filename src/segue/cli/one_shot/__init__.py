"""`segue "…"`: one prompt, one answer. Only the answer goes to stdout."""

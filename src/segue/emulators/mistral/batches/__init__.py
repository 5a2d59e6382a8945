"""Files, and batches of requests in them."""

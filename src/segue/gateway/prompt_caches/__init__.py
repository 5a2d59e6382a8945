"""What providers keep of the beginnings of requests: what should be read from their caches, and why it was not."""

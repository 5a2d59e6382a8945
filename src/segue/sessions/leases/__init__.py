"""Who may write to a session: claims, their owners, and the lock file that ends with its process."""

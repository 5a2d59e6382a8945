"""A small model inside this process: no key, no server."""

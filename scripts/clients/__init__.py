"""Real clients against the gateway and the strict emulators: `python -m scripts.clients`. Fetches them once."""

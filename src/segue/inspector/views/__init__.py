"""What pages show, as values: conversations, sessions, changes, wire bodies side by side, causes of lost caches."""

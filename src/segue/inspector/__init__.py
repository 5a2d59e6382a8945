"""The inspector: records what the gateway does with conversations, and shows it in a browser."""

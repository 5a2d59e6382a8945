"""What the newest SDKs of the providers know and our wires do not."""

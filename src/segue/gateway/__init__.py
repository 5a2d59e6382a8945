"""The gateway: any client on any wire, any provider behind it, one conversation that survives."""

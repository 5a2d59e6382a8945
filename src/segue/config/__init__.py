"""Settings: what can be set, where it is written, and which of several places holds."""

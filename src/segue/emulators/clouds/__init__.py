"""The APIs of makers as clouds host them: other addresses, keys and envelopes around the makers' own checks and replies."""

"""Hard histories sent to a real endpoint, to see whether it accepts what the emulators accept, and refuses what they refuse."""

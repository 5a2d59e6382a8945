"""What the screen shows: the start, turns, calls, switches."""

"""One conversation through every wire, against the emulators: what `segue demo` shows."""

"""The operating system: programs that we start, threads, signals, private files."""

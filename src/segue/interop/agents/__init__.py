"""Sessions of other programs, one module for each: read, written so that the program resumes them, and repaired in its own format."""

"""Files that messages refer to."""

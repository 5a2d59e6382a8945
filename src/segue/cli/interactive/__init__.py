"""A chat in the terminal: what is typed, what is shown, and the commands in between."""

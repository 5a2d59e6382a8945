"""The interactive chat: the input line, the screen, and the slash commands."""

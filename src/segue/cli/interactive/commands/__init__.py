"""The slash commands of the interactive chat: the table, and modules by subject."""

"""The slash commands of the chat: a table of names, and what each of them does."""

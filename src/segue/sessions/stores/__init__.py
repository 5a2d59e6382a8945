"""Where journals are kept: memory, SQLite, and files of JSON lines."""

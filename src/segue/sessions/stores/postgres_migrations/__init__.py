"""The forms that the tables of sessions have had in PostgreSQL, as numbered steps. See `segue.databases.postgres.migrations`."""

"""The forms that the tables of the gateway's memory have had in PostgreSQL. See `segue.databases.postgres.migrations`."""

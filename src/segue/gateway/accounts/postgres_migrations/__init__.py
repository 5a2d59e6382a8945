"""The forms that the tables of the gateway's accounts have had in PostgreSQL. See `segue.databases.postgres.migrations`."""

"""The forms that the tables of the gateway's accounts have had in PostgreSQL. See `segue.postgres.migrations`."""

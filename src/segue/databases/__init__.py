"""Databases, each with one home of connections, transactions and migrations: SQLite files, PostgreSQL."""

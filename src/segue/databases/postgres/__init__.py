"""PostgreSQL, for whatever several machines share: connections, transactions, migrations, errors. See `database.Database`."""

"""What keeps logs: in memory, in a SQLite file, in a PostgreSQL database; each meets `infold.testing.contracts.check_store`."""

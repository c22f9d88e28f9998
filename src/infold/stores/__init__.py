"""Stores of sessions: in memory, in a SQLite file, in a PostgreSQL database; each passes
`infold.testing.check_store`.
"""

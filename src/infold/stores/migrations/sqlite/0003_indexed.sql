-- How many of a session's entries the index holds; the rest is indexed when somebody searches.
ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET indexed = next_sequence;

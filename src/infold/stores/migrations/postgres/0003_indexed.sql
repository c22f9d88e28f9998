-- How many of a session's entries the index holds; the rest is indexed when somebody searches.
ALTER TABLE infold_sessions ADD COLUMN indexed bigint NOT NULL DEFAULT 0;
UPDATE infold_sessions SET indexed = next_sequence;

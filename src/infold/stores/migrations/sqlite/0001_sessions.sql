-- Sessions are numbered and no number is ever used again, so that a reader in the middle of a deleted session finds nothing
-- rather than another session's entries.
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    next_sequence INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    UNIQUE (tenant, id)
);

CREATE INDEX sessions_by_change ON sessions (tenant, changed_ms, number);

CREATE TABLE entries (
    session INTEGER NOT NULL REFERENCES sessions (number),
    sequence INTEGER NOT NULL,
    stored BLOB NOT NULL,
    PRIMARY KEY (session, sequence)
) WITHOUT ROWID;

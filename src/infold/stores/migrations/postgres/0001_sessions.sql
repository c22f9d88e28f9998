-- Sessions are numbered and no number is ever used again, so that a reader in the middle of a deleted session finds nothing
-- rather than another session's entries.
CREATE TABLE infold_sessions (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    id text NOT NULL,
    next_sequence bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    changed_ms bigint NOT NULL,
    UNIQUE (tenant, id)
);

CREATE INDEX infold_sessions_by_change ON infold_sessions (tenant, changed_ms, number);

CREATE TABLE infold_entries (
    session bigint NOT NULL REFERENCES infold_sessions (number) ON DELETE CASCADE,
    sequence bigint NOT NULL,
    stored bytea NOT NULL,
    PRIMARY KEY (session, sequence)
);

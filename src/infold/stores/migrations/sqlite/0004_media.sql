-- The bytes of images, documents and sound, once for each session that holds them. `digest` is the name that a part of the log has
-- for them.
CREATE TABLE media (
    session INTEGER NOT NULL REFERENCES sessions (number),
    digest TEXT NOT NULL,
    stored BLOB NOT NULL,
    PRIMARY KEY (session, digest)
);

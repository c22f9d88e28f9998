-- The bytes of images, documents and sound, once for each session that holds them. `digest` is the name that a part of the log has
-- for them.
CREATE TABLE infold_media (
    session bigint NOT NULL REFERENCES infold_sessions (number) ON DELETE CASCADE,
    digest text NOT NULL,
    stored bytea NOT NULL,
    PRIMARY KEY (session, digest)
);

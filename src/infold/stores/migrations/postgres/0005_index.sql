-- What ranking needs of a session's first entries, in pieces that begin where others end; core.recall packs them. They are made
-- when somebody searches, and a piece that is missing or of another version is made again. They replace the table of words.
DROP TABLE infold_words;
ALTER TABLE infold_sessions DROP COLUMN indexed;
CREATE TABLE infold_index_pieces (
    session bigint NOT NULL REFERENCES infold_sessions (number) ON DELETE CASCADE,
    first bigint NOT NULL,
    ends bigint NOT NULL,
    packed bytea NOT NULL,
    PRIMARY KEY (session, first)
);

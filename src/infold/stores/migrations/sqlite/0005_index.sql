-- What ranking needs of a session's first entries, in pieces that begin where others end; core.recall packs them. They are made
-- when somebody searches, and a piece that is missing or of another version is made again. They replace the table of words.
DROP TABLE words;
ALTER TABLE sessions DROP COLUMN indexed;
CREATE TABLE index_pieces (
    session INTEGER NOT NULL REFERENCES sessions (number),
    first INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (session, first)
);

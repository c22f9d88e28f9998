-- One row per part, or per piece of a very large one. `tokens` are those of core.recall and the mark of the session ("$" and its
-- number), by which the index alone finds the rows of one session: "$" stands in no token.
CREATE TABLE infold_words (
    session bigint NOT NULL REFERENCES infold_sessions (number) ON DELETE CASCADE,
    sequence bigint NOT NULL,
    position integer NOT NULL,
    tokens tsvector NOT NULL
);

CREATE INDEX infold_words_of_session ON infold_words (session, sequence);
CREATE INDEX infold_words_by_token ON infold_words USING gin (tokens);

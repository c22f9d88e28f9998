-- What providers showed about an account. `owner` is a hash of the account, keyed with a random key that the row without an owner
-- holds, so that neither a credential nor anything it could be looked up by is stored.
CREATE TABLE facts (
    owner TEXT NOT NULL,
    fact TEXT NOT NULL,
    PRIMARY KEY (owner, fact)
) WITHOUT ROWID;
INSERT INTO facts VALUES ('', lower(hex(randomblob(32))));

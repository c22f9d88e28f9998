-- What providers showed about an account. `owner` is a hash of the account, keyed with a random key that the row without an owner
-- holds, so that neither a credential nor anything it could be looked up by is stored.
CREATE TABLE infold_facts (
    owner text NOT NULL,
    fact text NOT NULL,
    PRIMARY KEY (owner, fact)
);
INSERT INTO infold_facts VALUES ('', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));

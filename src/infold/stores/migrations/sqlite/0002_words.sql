-- One row per part, or per piece of a very large one. `tokens` are those of core.recall, joined by spaces, and first the mark of
-- the session ("$" and its number): "$" stands in no token. The ascii tokeniser keeps what is not ASCII and what is listed here
-- as it is; folding and splitting were done by core.recall.
CREATE VIRTUAL TABLE words USING fts5 (
    sequence UNINDEXED,
    position UNINDEXED,
    tokens,
    tokenize = "ascii tokenchars '$_./\:@#+-'",
    detail = none,
    columnsize = 0
);

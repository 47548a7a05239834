-- Runs by when they ended, because keys of theirs are remembered until then and a day more. Derived rows are folded anew
-- with this version, so that a table can be made again.

DROP TABLE runs;
CREATE TABLE runs (
    key     TEXT PRIMARY KEY,
    created INTEGER,
    status  TEXT,
    ended   INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_created ON runs (created);
CREATE INDEX runs_status ON runs (status) WHERE status IS NOT NULL;

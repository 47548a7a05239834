-- Runs by when they ended, because keys of theirs are remembered until then and a day more. Derived rows are folded anew
-- with this version, so that a table can be made again.

DROP TABLE runs;
CREATE TABLE runs (
    key     text COLLATE "C" PRIMARY KEY,
    created bigint,
    status  text COLLATE "C",
    ended   bigint,
    doc     bytea NOT NULL
);
CREATE INDEX runs_created ON runs (created NULLS FIRST);
CREATE INDEX runs_status ON runs (status) WHERE status IS NOT NULL;

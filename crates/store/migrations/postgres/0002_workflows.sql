-- Runs, and the templates they are made from.

CREATE TABLE runs (
    key     text COLLATE "C" PRIMARY KEY,
    created bigint,
    status  text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX runs_created ON runs (created NULLS FIRST);
CREATE INDEX runs_status ON runs (status) WHERE status IS NOT NULL;

CREATE TABLE templates (
    key     text COLLATE "C" PRIMARY KEY,
    created bigint,
    name    text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX templates_created ON templates (created NULLS FIRST);
CREATE INDEX templates_name ON templates (name) WHERE name IS NOT NULL;

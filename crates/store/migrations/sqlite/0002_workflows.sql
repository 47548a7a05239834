-- Runs, and the templates they are made from.

CREATE TABLE runs (
    key     TEXT PRIMARY KEY,
    created INTEGER,
    status  TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_created ON runs (created);
CREATE INDEX runs_status ON runs (status) WHERE status IS NOT NULL;

CREATE TABLE templates (
    key     TEXT PRIMARY KEY,
    created INTEGER,
    name    TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX templates_created ON templates (created);
CREATE INDEX templates_name ON templates (name) WHERE name IS NOT NULL;

-- What is configured for the context of instances. Derived, like the tables before.

CREATE TABLE contexts (
    key   TEXT PRIMARY KEY,
    -- Whether it is for one instance or for the project.
    scope TEXT,
    doc   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX contexts_scope ON contexts (scope) WHERE scope IS NOT NULL;

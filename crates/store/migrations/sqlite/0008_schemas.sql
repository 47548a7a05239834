-- Schemas of payloads, what the steps of workflows expect, and groups of agents. Derived, like the tables before.

CREATE TABLE schemas (
    key        TEXT PRIMARY KEY,
    registered INTEGER,
    doc        BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schemas_registered ON schemas (registered) WHERE registered IS NOT NULL;

CREATE TABLE workflow_rules (
    key     TEXT PRIMARY KEY,
    defined INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_rules_defined ON workflow_rules (defined) WHERE defined IS NOT NULL;

CREATE TABLE groups (
    key     TEXT PRIMARY KEY,
    changed INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX groups_changed ON groups (changed) WHERE changed IS NOT NULL;

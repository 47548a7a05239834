-- Schemas of payloads, what the steps of workflows expect, and groups of agents. Derived, like the tables before.

CREATE TABLE schemas (
    key        text COLLATE "C" PRIMARY KEY,
    registered bigint,
    doc        bytea NOT NULL
);
CREATE INDEX schemas_registered ON schemas (registered) WHERE registered IS NOT NULL;

CREATE TABLE workflow_rules (
    key     text COLLATE "C" PRIMARY KEY,
    defined bigint,
    doc     bytea NOT NULL
);
CREATE INDEX workflow_rules_defined ON workflow_rules (defined) WHERE defined IS NOT NULL;

CREATE TABLE groups (
    key     text COLLATE "C" PRIMARY KEY,
    changed bigint,
    doc     bytea NOT NULL
);
CREATE INDEX groups_changed ON groups (changed) WHERE changed IS NOT NULL;

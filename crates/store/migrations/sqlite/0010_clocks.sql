-- Tasks by when something happens to them by itself. Derived rows are folded anew with this version, so that a table can be
-- made again.

DROP TABLE tasks;
CREATE TABLE tasks (
    key      TEXT PRIMARY KEY,
    created  INTEGER,
    run      TEXT,
    state    TEXT,
    assignee TEXT,
    held_by  TEXT,
    reserved INTEGER,
    waiting  INTEGER,
    parent   TEXT,
    unrouted INTEGER,
    due      INTEGER,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_created ON tasks (created);
CREATE INDEX tasks_run ON tasks (run) WHERE run IS NOT NULL;
CREATE INDEX tasks_state ON tasks (state) WHERE state IS NOT NULL;
CREATE INDEX tasks_assignee ON tasks (assignee) WHERE assignee IS NOT NULL;
CREATE INDEX tasks_held_by ON tasks (held_by) WHERE held_by IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent IS NOT NULL;
CREATE INDEX tasks_unrouted ON tasks (unrouted) WHERE unrouted IS NOT NULL;
CREATE INDEX tasks_due ON tasks (due) WHERE due IS NOT NULL;

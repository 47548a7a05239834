-- Messages of the Clutch protocol by their id; tasks by the one that they are part of, and those that wait to be given to
-- somebody. Derived rows are folded anew with this version, so that a table can be made again.

CREATE TABLE envelopes (
    key      text COLLATE "C" PRIMARY KEY,
    type     text COLLATE "C",
    received bigint,
    doc      bytea NOT NULL
);
CREATE INDEX envelopes_type ON envelopes (type, received NULLS FIRST) WHERE type IS NOT NULL;
CREATE INDEX envelopes_received ON envelopes (received NULLS FIRST);

DROP TABLE tasks;
CREATE TABLE tasks (
    key      text COLLATE "C" PRIMARY KEY,
    created  bigint,
    run      text COLLATE "C",
    state    text COLLATE "C",
    assignee text COLLATE "C",
    held_by  text COLLATE "C",
    reserved bigint,
    waiting  bigint,
    parent   text COLLATE "C",
    unrouted bigint,
    doc      bytea NOT NULL
);
CREATE INDEX tasks_created ON tasks (created NULLS FIRST);
CREATE INDEX tasks_run ON tasks (run) WHERE run IS NOT NULL;
CREATE INDEX tasks_state ON tasks (state) WHERE state IS NOT NULL;
CREATE INDEX tasks_assignee ON tasks (assignee) WHERE assignee IS NOT NULL;
CREATE INDEX tasks_held_by ON tasks (held_by) WHERE held_by IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent IS NOT NULL;
CREATE INDEX tasks_unrouted ON tasks (unrouted) WHERE unrouted IS NOT NULL;

-- The log, what is folded from it, and operational state. Bodies, facts and documents are bytes, never JSON columns:
-- a database's own JSON refuses NUL and drops duplicate keys. Texts compare byte by byte.

-- Ground.

CREATE TABLE log_head (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    log_id  TEXT    NOT NULL,
    -- The first seq that is kept.
    floor   INTEGER NOT NULL,
    head    INTEGER NOT NULL,
    -- The version of the fold that made the derived tables.
    format  INTEGER NOT NULL,
    project TEXT    NOT NULL
) STRICT;

CREATE TABLE log (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    -- NULL is the project's default.
    run       TEXT,
    thread    TEXT,
    task      TEXT,
    -- A claim's path key.
    path      TEXT,
    actor     TEXT    NOT NULL,
    -- The agent a fact is about, or its author.
    concerns  TEXT    NOT NULL,
    auth      TEXT    NOT NULL,
    -- Who spoke in the actor's name, if somebody did.
    via       TEXT,
    cause     INTEGER,
    fact      BLOB    NOT NULL,
    -- With a hash and without a place, the body was redacted.
    body_hash TEXT,
    body_in   TEXT CHECK (body_in IN ('row', 'artifact')),
    body      BLOB
) STRICT;

CREATE INDEX log_run ON log (run, seq) WHERE run IS NOT NULL;
CREATE INDEX log_thread ON log (thread, seq) WHERE thread IS NOT NULL;
CREATE INDEX log_task ON log (task, seq) WHERE task IS NOT NULL;
CREATE INDEX log_path ON log (path, seq) WHERE path IS NOT NULL;
CREATE INDEX log_actor ON log (actor, seq);
-- Most facts are about their author: those are found by it. Every index on the log is paid for by every command.
CREATE INDEX log_concerns ON log (concerns, seq) WHERE concerns <> actor;
CREATE INDEX log_kind ON log (kind, seq);
CREATE INDEX log_artifact ON log (body_hash) WHERE body_in = 'artifact';

-- Derived: the columns are those that `Table::columns` describes.

CREATE TABLE agents (
    key    TEXT PRIMARY KEY,
    live   INTEGER,
    joined INTEGER,
    doc    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_live ON agents (live);
CREATE INDEX agents_joined ON agents (joined);

CREATE TABLE tasks (
    key      TEXT PRIMARY KEY,
    created  INTEGER,
    run      TEXT,
    state    TEXT,
    assignee TEXT,
    held_by  TEXT,
    reserved INTEGER,
    waiting  INTEGER,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_created ON tasks (created);
CREATE INDEX tasks_run ON tasks (run) WHERE run IS NOT NULL;
CREATE INDEX tasks_state ON tasks (state) WHERE state IS NOT NULL;
CREATE INDEX tasks_assignee ON tasks (assignee) WHERE assignee IS NOT NULL;
CREATE INDEX tasks_held_by ON tasks (held_by) WHERE held_by IS NOT NULL;

CREATE TABLE task_edges (
    key TEXT PRIMARY KEY,
    dep TEXT,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX task_edges_dep ON task_edges (dep) WHERE dep IS NOT NULL;

CREATE TABLE files (
    key      TEXT PRIMARY KEY,
    holder   TEXT,
    held_key TEXT,
    task     TEXT,
    state    TEXT,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX files_holder ON files (holder) WHERE holder IS NOT NULL;
CREATE INDEX files_held_key ON files (held_key) WHERE held_key IS NOT NULL;
CREATE INDEX files_task ON files (task) WHERE task IS NOT NULL;
CREATE INDEX files_state ON files (state) WHERE state IS NOT NULL;

CREATE TABLE handoffs (
    key       TEXT PRIMARY KEY,
    created   INTEGER,
    status    TEXT,
    recipient TEXT,
    task      TEXT,
    doc       BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX handoffs_created ON handoffs (created);
CREATE INDEX handoffs_status ON handoffs (status) WHERE status IS NOT NULL;
CREATE INDEX handoffs_recipient ON handoffs (recipient) WHERE recipient IS NOT NULL;
CREATE INDEX handoffs_task ON handoffs (task) WHERE task IS NOT NULL;

CREATE TABLE seats (
    key TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    key     TEXT PRIMARY KEY,
    task    TEXT,
    created INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_task ON checkpoints (task) WHERE task IS NOT NULL;
CREATE INDEX checkpoints_created ON checkpoints (created);

CREATE TABLE timers (
    key TEXT PRIMARY KEY,
    due INTEGER,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_due ON timers (due);

CREATE TABLE intents (
    key    TEXT PRIMARY KEY,
    opened INTEGER,
    doc    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX intents_opened ON intents (opened);

CREATE TABLE tallies (
    name TEXT PRIMARY KEY,
    n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Operational.

CREATE TABLE replies (
    scope      TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    hash       TEXT    NOT NULL,
    answer     BLOB    NOT NULL,
    keep_until INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX replies_keep_until ON replies (keep_until);

CREATE TABLE presence (
    agent     TEXT PRIMARY KEY,
    last_seen INTEGER NOT NULL,
    source    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id  TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT;

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Something to write when it has to be found out whether the disk takes writes again.
CREATE TABLE probe (
    one INTEGER PRIMARY KEY,
    pad BLOB NOT NULL
) STRICT;

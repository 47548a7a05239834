-- The log, the tables folded from it, and operational state. Bodies, events and documents are bytes, never JSON columns:
-- a database's own JSON refuses NUL and drops duplicate keys. Text compares byte by byte.

-- The log.

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
    -- The agent that the event is about, or its author.
    concerns  TEXT    NOT NULL,
    auth      TEXT    NOT NULL,
    -- The agent or person who acted in the actor's name, if any.
    via       TEXT,
    cause     INTEGER,
    -- The place among the rows that one command appended: seq - part_index is the first of them.
    part_index INTEGER NOT NULL,
    fact      BLOB    NOT NULL,
    -- A body with a hash and without a place was redacted.
    body_hash TEXT,
    body_in   TEXT CHECK (body_in IN ('row', 'artifact')),
    body      BLOB
) STRICT;
CREATE INDEX log_run ON log (run, seq) WHERE run IS NOT NULL;
CREATE INDEX log_thread ON log (thread, seq) WHERE thread IS NOT NULL;
CREATE INDEX log_task ON log (task, seq) WHERE task IS NOT NULL;
CREATE INDEX log_path ON log (path, seq) WHERE path IS NOT NULL;
CREATE INDEX log_actor ON log (actor, seq);
-- Most events are about their author and are found by it. Every command pays for every index on the log.
CREATE INDEX log_concerns ON log (concerns, seq) WHERE concerns <> actor;
CREATE INDEX log_kind ON log (kind, seq);
CREATE INDEX log_artifact ON log (body_hash) WHERE body_in = 'artifact';

-- Folded from the log. The columns are those of `Table::columns`. An index is named after its first column; further columns
-- are the order in which rows are read.

CREATE TABLE agents (
    key    TEXT PRIMARY KEY,
    live   INTEGER,
    joined INTEGER,
    doc    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_live ON agents (live);
CREATE INDEX agents_joined ON agents (joined);

CREATE TABLE leadership (
    key TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE groups (
    key     TEXT PRIMARY KEY,
    changed INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX groups_changed ON groups (changed) WHERE changed IS NOT NULL;

CREATE TABLE runs (
    key     TEXT PRIMARY KEY,
    created INTEGER,
    status  TEXT,
    ended   INTEGER,
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

CREATE TABLE task_dependencies (
    key TEXT PRIMARY KEY,
    dep TEXT,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX task_dependencies_dep ON task_dependencies (dep) WHERE dep IS NOT NULL;

CREATE TABLE checkpoints (
    key     TEXT PRIMARY KEY,
    task    TEXT,
    created INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_task ON checkpoints (task) WHERE task IS NOT NULL;
CREATE INDEX checkpoints_created ON checkpoints (created);

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

CREATE TABLE messages (
    key      TEXT PRIMARY KEY,
    -- The thread, if the message is an entry of its channel.
    channel  TEXT,
    at       INTEGER,
    -- Set if the message is a broadcast.
    audience TEXT,
    sent     INTEGER,
    -- The author, while the message waits for approval.
    held     TEXT,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_channel ON messages (channel, at) WHERE channel IS NOT NULL;
CREATE INDEX messages_audience ON messages (audience, sent) WHERE audience IS NOT NULL;
CREATE INDEX messages_held ON messages (held, sent) WHERE held IS NOT NULL;

CREATE TABLE deliveries (
    key     TEXT PRIMARY KEY,
    -- The agent, until it has acknowledged the message. Broadcasts are counted by their audience.
    pending TEXT,
    sent    INTEGER,
    message TEXT,
    state   TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_pending ON deliveries (pending, sent) WHERE pending IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message) WHERE message IS NOT NULL;
CREATE INDEX deliveries_state ON deliveries (state, sent) WHERE state IS NOT NULL;

CREATE TABLE threads (
    key TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE senders (
    key TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE envelopes (
    key      TEXT PRIMARY KEY,
    type     TEXT,
    received INTEGER,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX envelopes_type ON envelopes (type, received) WHERE type IS NOT NULL;
CREATE INDEX envelopes_received ON envelopes (received);

CREATE TABLE schemas (
    key        TEXT PRIMARY KEY,
    registered INTEGER,
    doc        BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schemas_registered ON schemas (registered) WHERE registered IS NOT NULL;

CREATE TABLE step_contracts (
    key     TEXT PRIMARY KEY,
    defined INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX step_contracts_defined ON step_contracts (defined) WHERE defined IS NOT NULL;

CREATE TABLE documents (
    key     TEXT PRIMARY KEY,
    -- The run, unless the document was deleted.
    live_in TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_live_in ON documents (live_in) WHERE live_in IS NOT NULL;

CREATE TABLE document_versions (
    key      TEXT PRIMARY KEY,
    document TEXT,
    version  INTEGER,
    -- Common to all pieces of one text.
    base     TEXT,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX document_versions_document ON document_versions (document, version) WHERE document IS NOT NULL;
CREATE INDEX document_versions_base ON document_versions (base) WHERE base IS NOT NULL;

CREATE TABLE contexts (
    key   TEXT PRIMARY KEY,
    -- One instance, or the whole project.
    scope TEXT,
    doc   BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX contexts_scope ON contexts (scope) WHERE scope IS NOT NULL;

CREATE TABLE workspaces (
    key     TEXT PRIMARY KEY,
    created INTEGER,
    run     TEXT,
    status  TEXT,
    -- The site and the path, while a worktree exists or is being made.
    place   TEXT,
    -- The site, the branch and the repository, for the same time.
    branch  TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workspaces_created ON workspaces (created);
CREATE INDEX workspaces_run ON workspaces (run) WHERE run IS NOT NULL;
CREATE INDEX workspaces_status ON workspaces (status) WHERE status IS NOT NULL;
CREATE INDEX workspaces_place ON workspaces (place) WHERE place IS NOT NULL;
CREATE INDEX workspaces_branch ON workspaces (branch) WHERE branch IS NOT NULL;

CREATE TABLE artifact_refs (
    key    TEXT PRIMARY KEY,
    sha256 TEXT,
    doc    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_refs_sha256 ON artifact_refs (sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE teams (
    key     TEXT PRIMARY KEY,
    live    INTEGER,
    started INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX teams_live ON teams (live, started) WHERE live IS NOT NULL;
CREATE INDEX teams_started ON teams (started) WHERE started IS NOT NULL;

CREATE TABLE turns (
    key     TEXT PRIMARY KEY,
    started INTEGER,
    agent   TEXT,
    team    TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_started ON turns (started) WHERE started IS NOT NULL;
CREATE INDEX turns_agent ON turns (agent, started) WHERE agent IS NOT NULL;
CREATE INDEX turns_team ON turns (team, started) WHERE team IS NOT NULL;

CREATE TABLE tallies (
    name TEXT PRIMARY KEY,
    n    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Operational: not folded from the log, and not replayed.

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

-- The position of each adapter in the log, and its dead letters.
CREATE TABLE outboxes (
    adapter TEXT PRIMARY KEY,
    -- Incremented by every change; a change to an older version is ignored.
    version INTEGER NOT NULL,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Written to find out whether the disk takes writes again.
CREATE TABLE probe (
    one INTEGER PRIMARY KEY,
    pad BLOB NOT NULL
) STRICT;

-- The log, the tables folded from it, and operational state. Bodies, events and documents are bytes, never jsonb, which
-- refuses NUL and drops duplicate keys. Text compares byte by byte. Times are epoch milliseconds of the database's clock.

-- The log.

-- The row that orders all decisions: every transaction that writes the log locks it first.
CREATE TABLE log_head (
    one     integer PRIMARY KEY CHECK (one = 1),
    log_id  text    COLLATE "C" NOT NULL,
    -- The first seq that is kept.
    floor   bigint  NOT NULL,
    head    bigint  NOT NULL,
    -- The version of the fold that made the derived tables.
    format  integer NOT NULL,
    -- The newest migration. A program that does not know it must not write.
    schema  integer NOT NULL,
    project text    COLLATE "C" NOT NULL,
    -- Incremented by every change of tokens.
    tokens  bigint  NOT NULL DEFAULT 0,
    -- Where the store was moved to, if it was: then it is no longer written.
    moved_to text   COLLATE "C"
) WITH (fillfactor = 10);

CREATE TABLE log (
    seq       bigint  PRIMARY KEY,
    at        bigint  NOT NULL,
    kind      text    COLLATE "C" NOT NULL,
    version   integer NOT NULL,
    -- NULL is the project's default.
    run       text    COLLATE "C",
    thread    text    COLLATE "C",
    task      text    COLLATE "C",
    -- A claim's path key.
    path      text    COLLATE "C",
    actor     text    COLLATE "C" NOT NULL,
    -- The agent that the event is about, or its author.
    concerns  text    COLLATE "C" NOT NULL,
    auth      text    COLLATE "C" NOT NULL,
    -- The agent or person who acted in the actor's name, if any.
    via       text    COLLATE "C",
    cause     bigint,
    -- The place among the rows that one command appended: seq - part_index is the first of them.
    part_index integer NOT NULL,
    fact      bytea   NOT NULL,
    -- A body with a hash and without a place was redacted.
    body_hash text    COLLATE "C",
    body_in   text    COLLATE "C" CHECK (body_in IN ('row', 'artifact')),
    body      bytea
);
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
-- are the order in which rows are read. Lists read rows without a value first.

CREATE TABLE agents (
    key    text COLLATE "C" PRIMARY KEY,
    live   bigint,
    joined bigint,
    doc    bytea NOT NULL
);
CREATE INDEX agents_live ON agents (live);
CREATE INDEX agents_joined ON agents (joined NULLS FIRST);

CREATE TABLE leadership (
    key text COLLATE "C" PRIMARY KEY,
    doc bytea NOT NULL
);

CREATE TABLE groups (
    key     text COLLATE "C" PRIMARY KEY,
    changed bigint,
    doc     bytea NOT NULL
);
CREATE INDEX groups_changed ON groups (changed) WHERE changed IS NOT NULL;

CREATE TABLE runs (
    key     text COLLATE "C" PRIMARY KEY,
    created bigint,
    status  text COLLATE "C",
    ended   bigint,
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
    due      bigint,
    doc      bytea NOT NULL
);
CREATE INDEX tasks_created ON tasks (created NULLS FIRST);
CREATE INDEX tasks_run ON tasks (run) WHERE run IS NOT NULL;
CREATE INDEX tasks_state ON tasks (state) WHERE state IS NOT NULL;
CREATE INDEX tasks_assignee ON tasks (assignee) WHERE assignee IS NOT NULL;
CREATE INDEX tasks_held_by ON tasks (held_by) WHERE held_by IS NOT NULL;
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent IS NOT NULL;
CREATE INDEX tasks_unrouted ON tasks (unrouted) WHERE unrouted IS NOT NULL;
CREATE INDEX tasks_due ON tasks (due) WHERE due IS NOT NULL;

CREATE TABLE task_dependencies (
    key text COLLATE "C" PRIMARY KEY,
    dep text COLLATE "C",
    doc bytea NOT NULL
);
CREATE INDEX task_dependencies_dep ON task_dependencies (dep, key) WHERE dep IS NOT NULL;

CREATE TABLE checkpoints (
    key     text COLLATE "C" PRIMARY KEY,
    task    text COLLATE "C",
    created bigint,
    doc     bytea NOT NULL
);
CREATE INDEX checkpoints_task ON checkpoints (task) WHERE task IS NOT NULL;
CREATE INDEX checkpoints_created ON checkpoints (created NULLS FIRST);

CREATE TABLE files (
    key      text COLLATE "C" PRIMARY KEY,
    holder   text COLLATE "C",
    held_key text COLLATE "C",
    task     text COLLATE "C",
    state    text COLLATE "C",
    doc      bytea NOT NULL
);
CREATE INDEX files_holder ON files (holder) WHERE holder IS NOT NULL;
CREATE INDEX files_held_key ON files (held_key) WHERE held_key IS NOT NULL;
CREATE INDEX files_task ON files (task) WHERE task IS NOT NULL;
CREATE INDEX files_state ON files (state) WHERE state IS NOT NULL;

CREATE TABLE handoffs (
    key       text COLLATE "C" PRIMARY KEY,
    created   bigint,
    status    text COLLATE "C",
    recipient text COLLATE "C",
    task      text COLLATE "C",
    doc       bytea NOT NULL
);
CREATE INDEX handoffs_created ON handoffs (created NULLS FIRST);
CREATE INDEX handoffs_status ON handoffs (status) WHERE status IS NOT NULL;
CREATE INDEX handoffs_recipient ON handoffs (recipient) WHERE recipient IS NOT NULL;
CREATE INDEX handoffs_task ON handoffs (task) WHERE task IS NOT NULL;

CREATE TABLE timers (
    key text COLLATE "C" PRIMARY KEY,
    due bigint,
    doc bytea NOT NULL
);
CREATE INDEX timers_due ON timers (due NULLS FIRST);

CREATE TABLE intents (
    key    text COLLATE "C" PRIMARY KEY,
    opened bigint,
    doc    bytea NOT NULL
);
CREATE INDEX intents_opened ON intents (opened NULLS FIRST);

CREATE TABLE messages (
    key      text COLLATE "C" PRIMARY KEY,
    -- The thread, if the message is an entry of its channel.
    channel  text COLLATE "C",
    at       bigint,
    -- Set if the message is a broadcast.
    audience text COLLATE "C",
    sent     bigint,
    -- The author, while the message waits for approval.
    held     text COLLATE "C",
    doc      bytea NOT NULL
);
CREATE INDEX messages_channel ON messages (channel, at NULLS FIRST, key) WHERE channel IS NOT NULL;
CREATE INDEX messages_audience ON messages (audience, sent NULLS FIRST, key) WHERE audience IS NOT NULL;
CREATE INDEX messages_held ON messages (held, sent NULLS FIRST, key) WHERE held IS NOT NULL;

CREATE TABLE deliveries (
    key     text COLLATE "C" PRIMARY KEY,
    -- The agent, until it has acknowledged the message. Broadcasts are counted by their audience.
    pending text COLLATE "C",
    sent    bigint,
    message text COLLATE "C",
    state   text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX deliveries_pending ON deliveries (pending, sent NULLS FIRST, key) WHERE pending IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message) WHERE message IS NOT NULL;
CREATE INDEX deliveries_state ON deliveries (state, sent NULLS FIRST, key) WHERE state IS NOT NULL;

CREATE TABLE threads (
    key text COLLATE "C" PRIMARY KEY,
    doc bytea NOT NULL
);

CREATE TABLE senders (
    key text COLLATE "C" PRIMARY KEY,
    doc bytea NOT NULL
);

CREATE TABLE envelopes (
    key      text COLLATE "C" PRIMARY KEY,
    type     text COLLATE "C",
    received bigint,
    doc      bytea NOT NULL
);
CREATE INDEX envelopes_type ON envelopes (type, received NULLS FIRST) WHERE type IS NOT NULL;
CREATE INDEX envelopes_received ON envelopes (received NULLS FIRST);

CREATE TABLE schemas (
    key        text COLLATE "C" PRIMARY KEY,
    registered bigint,
    doc        bytea NOT NULL
);
CREATE INDEX schemas_registered ON schemas (registered) WHERE registered IS NOT NULL;

CREATE TABLE step_contracts (
    key     text COLLATE "C" PRIMARY KEY,
    defined bigint,
    doc     bytea NOT NULL
);
CREATE INDEX step_contracts_defined ON step_contracts (defined) WHERE defined IS NOT NULL;

CREATE TABLE documents (
    key     text COLLATE "C" PRIMARY KEY,
    -- The run, unless the document was deleted.
    live_in text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX documents_live_in ON documents (live_in) WHERE live_in IS NOT NULL;

CREATE TABLE document_versions (
    key      text COLLATE "C" PRIMARY KEY,
    document text COLLATE "C",
    version  bigint,
    -- Common to all pieces of one text.
    base     text COLLATE "C",
    doc      bytea NOT NULL
);
CREATE INDEX document_versions_document ON document_versions (document, version NULLS FIRST, key) WHERE document IS NOT NULL;
CREATE INDEX document_versions_base ON document_versions (base) WHERE base IS NOT NULL;

CREATE TABLE contexts (
    key   text COLLATE "C" PRIMARY KEY,
    -- One instance, or the whole project.
    scope text COLLATE "C",
    doc   bytea NOT NULL
);
CREATE INDEX contexts_scope ON contexts (scope) WHERE scope IS NOT NULL;

CREATE TABLE workspaces (
    key     text COLLATE "C" PRIMARY KEY,
    created bigint,
    run     text COLLATE "C",
    status  text COLLATE "C",
    -- The site and the path, while a worktree exists or is being made.
    place   text COLLATE "C",
    -- The site, the branch and the repository, for the same time.
    branch  text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX workspaces_created ON workspaces (created NULLS FIRST);
CREATE INDEX workspaces_run ON workspaces (run) WHERE run IS NOT NULL;
CREATE INDEX workspaces_status ON workspaces (status) WHERE status IS NOT NULL;
CREATE INDEX workspaces_place ON workspaces (place) WHERE place IS NOT NULL;
CREATE INDEX workspaces_branch ON workspaces (branch) WHERE branch IS NOT NULL;

CREATE TABLE artifact_refs (
    key    text COLLATE "C" PRIMARY KEY,
    sha256 text COLLATE "C",
    doc    bytea NOT NULL
);
CREATE INDEX artifact_refs_sha256 ON artifact_refs (sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE teams (
    key     text COLLATE "C" PRIMARY KEY,
    live    bigint,
    started bigint,
    doc     bytea NOT NULL
);
CREATE INDEX teams_live ON teams (live, started NULLS FIRST, key) WHERE live IS NOT NULL;
CREATE INDEX teams_started ON teams (started) WHERE started IS NOT NULL;

CREATE TABLE turns (
    key     text COLLATE "C" PRIMARY KEY,
    started bigint,
    agent   text COLLATE "C",
    team    text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX turns_started ON turns (started) WHERE started IS NOT NULL;
CREATE INDEX turns_agent ON turns (agent, started NULLS FIRST, key) WHERE agent IS NOT NULL;
CREATE INDEX turns_team ON turns (team, started NULLS FIRST, key) WHERE team IS NOT NULL;

CREATE TABLE tallies (
    name text   COLLATE "C" PRIMARY KEY,
    n    bigint NOT NULL
) WITH (fillfactor = 50);

-- Operational: not folded from the log, and not replayed.

CREATE TABLE replies (
    scope      text   COLLATE "C" NOT NULL,
    key        text   COLLATE "C" NOT NULL,
    hash       text   COLLATE "C" NOT NULL,
    answer     bytea  NOT NULL,
    keep_until bigint NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX replies_keep_until ON replies (keep_until);

CREATE TABLE presence (
    agent     text   COLLATE "C" PRIMARY KEY,
    last_seen bigint NOT NULL,
    source    text   COLLATE "C" NOT NULL,
    -- The node that saw it.
    node      text   COLLATE "C"
) WITH (fillfactor = 50);

CREATE TABLE tokens (
    n   bigint GENERATED ALWAYS AS IDENTITY,
    id  text   COLLATE "C" PRIMARY KEY,
    doc bytea  NOT NULL
);

CREATE TABLE meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text COLLATE "C" NOT NULL
);

-- The position of each adapter in the log, and its dead letters.
CREATE TABLE outboxes (
    adapter text COLLATE "C" PRIMARY KEY,
    -- Incremented by every change; a change to an older version is ignored.
    version bigint NOT NULL,
    doc     bytea NOT NULL
);

-- The processes that serve this log.
CREATE TABLE nodes (
    id         text    COLLATE "C" PRIMARY KEY,
    host       text    COLLATE "C" NOT NULL,
    pid        bigint  NOT NULL,
    url        text    COLLATE "C",
    version    text    COLLATE "C" NOT NULL,
    site       text    COLLATE "C" NOT NULL,
    root       text    COLLATE "C" NOT NULL,
    started_at bigint  NOT NULL,
    seen_at    bigint  NOT NULL
) WITH (fillfactor = 50);

-- Leader roles, each held by one node. A role changes hands under the lock on the head.
CREATE TABLE duties (
    name  text   COLLATE "C" PRIMARY KEY,
    node  text   COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    until bigint NOT NULL
) WITH (fillfactor = 50);

-- The newest batch that each node committed: the outcome of a commit whose answer was lost.
CREATE TABLE batches (
    node  text   COLLATE "C" PRIMARY KEY,
    batch text   COLLATE "C" NOT NULL,
    at    bigint NOT NULL
) WITH (fillfactor = 50);

-- Artifacts by their SHA-256. Chunks arrive before the hash is known, so they belong to a blob, and an artifact names its
-- blob. Each chunk has its own hash, so that a part of an artifact can be verified.
CREATE TABLE artifacts (
    sha256    text   COLLATE "C" PRIMARY KEY,
    bytes     bigint NOT NULL,
    stored_at bigint NOT NULL,
    blob      text   COLLATE "C" NOT NULL
);

CREATE TABLE artifact_chunks (
    blob text    COLLATE "C" NOT NULL,
    n    integer NOT NULL,
    data bytea   NOT NULL,
    hash bytea   NOT NULL,
    PRIMARY KEY (blob, n)
);
-- Most artifacts are compressed already, or read whole.
ALTER TABLE artifact_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Blobs without an artifact: uploads until `until`, afterwards to be removed.
CREATE TABLE artifact_blobs (
    id    text   COLLATE "C" PRIMARY KEY,
    until bigint NOT NULL
);
CREATE INDEX artifact_blobs_until ON artifact_blobs (until);

-- Artifacts that a pending command is about to name: not to be erased until `until`.
CREATE TABLE artifact_holds (
    id     text   COLLATE "C" PRIMARY KEY,
    sha256 text   COLLATE "C" NOT NULL,
    until  bigint NOT NULL
);
CREATE INDEX artifact_holds_sha256 ON artifact_holds (sha256);

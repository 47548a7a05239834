-- The log, what is folded from it, and operational state. Bodies, facts and documents are bytes, never jsonb: it refuses
-- NUL and drops duplicate keys. Texts compare byte by byte. Times are epoch milliseconds of the database's clock.

-- Ground.

-- The one row that puts every decision in order: locked first in each transaction that writes the log.
CREATE TABLE log_head (
    one     integer PRIMARY KEY CHECK (one = 1),
    log_id  text    COLLATE "C" NOT NULL,
    -- The first seq that is kept.
    floor   bigint  NOT NULL,
    head    bigint  NOT NULL,
    -- The version of the fold that made the derived tables.
    format  integer NOT NULL,
    -- The newest migration: a program that does not know it must not write.
    schema  integer NOT NULL,
    project text    COLLATE "C" NOT NULL,
    -- Counted up with every change of tokens.
    tokens  bigint  NOT NULL DEFAULT 0,
    -- Where the store went, if it was moved away: nobody writes it any more.
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
    -- The agent a fact is about, or its author.
    concerns  text    COLLATE "C" NOT NULL,
    auth      text    COLLATE "C" NOT NULL,
    -- Who spoke in the actor's name, if somebody did.
    via       text    COLLATE "C",
    cause     bigint,
    fact      bytea   NOT NULL,
    -- With a hash and without a place, the body was redacted.
    body_hash text    COLLATE "C",
    body_in   text    COLLATE "C" CHECK (body_in IN ('row', 'artifact')),
    body      bytea
);

CREATE INDEX log_run ON log (run, seq) WHERE run IS NOT NULL;
CREATE INDEX log_thread ON log (thread, seq) WHERE thread IS NOT NULL;
CREATE INDEX log_task ON log (task, seq) WHERE task IS NOT NULL;
CREATE INDEX log_path ON log (path, seq) WHERE path IS NOT NULL;
CREATE INDEX log_actor ON log (actor, seq);
-- Most facts are about their author: those are found by it. Every index on the log is paid for by every command.
CREATE INDEX log_concerns ON log (concerns, seq) WHERE concerns <> actor;
CREATE INDEX log_kind ON log (kind, seq);
CREATE INDEX log_artifact ON log (body_hash) WHERE body_in = 'artifact';

-- Derived: the columns are those that `Table::columns` describes. What lists are ordered by has no value first.

CREATE TABLE agents (
    key    text COLLATE "C" PRIMARY KEY,
    live   bigint,
    joined bigint,
    doc    bytea NOT NULL
);
CREATE INDEX agents_live ON agents (live);
CREATE INDEX agents_joined ON agents (joined NULLS FIRST);

CREATE TABLE tasks (
    key      text COLLATE "C" PRIMARY KEY,
    created  bigint,
    run      text COLLATE "C",
    state    text COLLATE "C",
    assignee text COLLATE "C",
    held_by  text COLLATE "C",
    reserved bigint,
    waiting  bigint,
    doc      bytea NOT NULL
);
CREATE INDEX tasks_created ON tasks (created NULLS FIRST);
CREATE INDEX tasks_run ON tasks (run) WHERE run IS NOT NULL;
CREATE INDEX tasks_state ON tasks (state) WHERE state IS NOT NULL;
CREATE INDEX tasks_assignee ON tasks (assignee) WHERE assignee IS NOT NULL;
CREATE INDEX tasks_held_by ON tasks (held_by) WHERE held_by IS NOT NULL;

CREATE TABLE task_edges (
    key text COLLATE "C" PRIMARY KEY,
    dep text COLLATE "C",
    doc bytea NOT NULL
);
CREATE INDEX task_edges_dep ON task_edges (dep) WHERE dep IS NOT NULL;

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

CREATE TABLE seats (
    key text COLLATE "C" PRIMARY KEY,
    doc bytea NOT NULL
);

CREATE TABLE checkpoints (
    key     text COLLATE "C" PRIMARY KEY,
    task    text COLLATE "C",
    created bigint,
    doc     bytea NOT NULL
);
CREATE INDEX checkpoints_task ON checkpoints (task) WHERE task IS NOT NULL;
CREATE INDEX checkpoints_created ON checkpoints (created NULLS FIRST);

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

CREATE TABLE tallies (
    name text   COLLATE "C" PRIMARY KEY,
    n    bigint NOT NULL
) WITH (fillfactor = 50);

-- Operational.

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

-- Work that one node does for all. Changes hands under the lock on the head.
CREATE TABLE duties (
    name  text   COLLATE "C" PRIMARY KEY,
    node  text   COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    until bigint NOT NULL
) WITH (fillfactor = 50);

-- The newest batch that each node committed: tells what became of a commit whose answer was lost.
CREATE TABLE batches (
    node  text   COLLATE "C" PRIMARY KEY,
    batch text   COLLATE "C" NOT NULL,
    at    bigint NOT NULL
) WITH (fillfactor = 50);

-- Bytes by their SHA-256, in pieces.
CREATE TABLE artifacts (
    sha256    text   COLLATE "C" PRIMARY KEY,
    bytes     bigint NOT NULL,
    stored_at bigint NOT NULL
);

CREATE TABLE artifact_chunks (
    sha256 text    COLLATE "C" NOT NULL REFERENCES artifacts ON DELETE CASCADE,
    n      integer NOT NULL,
    data   bytea   NOT NULL,
    PRIMARY KEY (sha256, n)
);
-- Most of it is compressed already, or read whole.
ALTER TABLE artifact_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Somebody is about to name these: not to be erased until then.
CREATE TABLE artifact_holds (
    id     text   COLLATE "C" PRIMARY KEY,
    sha256 text   COLLATE "C" NOT NULL,
    until  bigint NOT NULL
);
CREATE INDEX artifact_holds_sha256 ON artifact_holds (sha256);

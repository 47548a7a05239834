-- Messages with their deliveries, and documents with their versions. Derived, like the tables before: an index bears the
-- name of its first column; what follows it there is the order that rows are read in.

CREATE TABLE messages (
    key      TEXT PRIMARY KEY,
    -- The thread, if the message is an entry of its channel.
    channel  TEXT,
    at       INTEGER,
    -- Set if the message is to everybody.
    audience TEXT,
    sent     INTEGER,
    -- The author, while the message waits for a person.
    held     TEXT,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_channel ON messages (channel, at) WHERE channel IS NOT NULL;
CREATE INDEX messages_audience ON messages (audience, sent) WHERE audience IS NOT NULL;
CREATE INDEX messages_held ON messages (held, sent) WHERE held IS NOT NULL;

CREATE TABLE deliveries (
    key     TEXT PRIMARY KEY,
    -- The agent, until it has acknowledged the message. Messages to everybody are counted by what they are to.
    pending TEXT,
    sent    INTEGER,
    message TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_pending ON deliveries (pending, sent) WHERE pending IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message) WHERE message IS NOT NULL;

CREATE TABLE threads (
    key TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE senders (
    key TEXT PRIMARY KEY,
    doc BLOB NOT NULL
) STRICT, WITHOUT ROWID;

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
    -- What the pieces of one text have in common.
    base     TEXT,
    doc      BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX document_versions_document ON document_versions (document, version) WHERE document IS NOT NULL;
CREATE INDEX document_versions_base ON document_versions (base) WHERE base IS NOT NULL;

-- Messages with their deliveries, and documents with their versions. Derived, like the tables before: an index bears the
-- name of its first column; what follows it there is the order that rows are read in.

CREATE TABLE messages (
    key      text COLLATE "C" PRIMARY KEY,
    -- The thread, if the message is an entry of its channel.
    channel  text COLLATE "C",
    at       bigint,
    -- Set if the message is to everybody.
    audience text COLLATE "C",
    sent     bigint,
    -- The author, while the message waits for a person.
    held     text COLLATE "C",
    doc      bytea NOT NULL
);
CREATE INDEX messages_channel ON messages (channel, at NULLS FIRST, key) WHERE channel IS NOT NULL;
CREATE INDEX messages_audience ON messages (audience, sent NULLS FIRST, key) WHERE audience IS NOT NULL;
CREATE INDEX messages_held ON messages (held, sent NULLS FIRST, key) WHERE held IS NOT NULL;

CREATE TABLE deliveries (
    key     text COLLATE "C" PRIMARY KEY,
    -- The agent, until it has acknowledged the message. Messages to everybody are counted by what they are to.
    pending text COLLATE "C",
    sent    bigint,
    message text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX deliveries_pending ON deliveries (pending, sent NULLS FIRST, key) WHERE pending IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message) WHERE message IS NOT NULL;

CREATE TABLE threads (
    key text COLLATE "C" PRIMARY KEY,
    doc bytea NOT NULL
);

CREATE TABLE senders (
    key text COLLATE "C" PRIMARY KEY,
    doc bytea NOT NULL
);

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
    -- What the pieces of one text have in common.
    base     text COLLATE "C",
    doc      bytea NOT NULL
);
CREATE INDEX document_versions_document ON document_versions (document, version NULLS FIRST, key) WHERE document IS NOT NULL;
CREATE INDEX document_versions_base ON document_versions (base) WHERE base IS NOT NULL;

-- Deliveries by where they stand, so that those that were given up on are found. Derived rows are folded anew with this
-- version, so that a table can be made again.

DROP TABLE deliveries;
CREATE TABLE deliveries (
    key     TEXT PRIMARY KEY,
    -- The agent, until it has acknowledged the message. Messages to everybody are counted by what they are to.
    pending TEXT,
    sent    INTEGER,
    message TEXT,
    state   TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_pending ON deliveries (pending, sent) WHERE pending IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message) WHERE message IS NOT NULL;
CREATE INDEX deliveries_state ON deliveries (state, sent) WHERE state IS NOT NULL;

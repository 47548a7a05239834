-- Deliveries by where they stand, so that those that were given up on are found. Derived rows are folded anew with this
-- version, so that a table can be made again.

DROP TABLE deliveries;
CREATE TABLE deliveries (
    key     text COLLATE "C" PRIMARY KEY,
    -- The agent, until it has acknowledged the message. Messages to everybody are counted by what they are to.
    pending text COLLATE "C",
    sent    bigint,
    message text COLLATE "C",
    state   text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX deliveries_pending ON deliveries (pending, sent NULLS FIRST, key) WHERE pending IS NOT NULL;
CREATE INDEX deliveries_message ON deliveries (message) WHERE message IS NOT NULL;
CREATE INDEX deliveries_state ON deliveries (state, sent NULLS FIRST, key) WHERE state IS NOT NULL;

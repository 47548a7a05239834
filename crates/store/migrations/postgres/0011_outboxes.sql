-- How far adapters have come with passing on the log. Operational: folded from nothing, and not replayed.

CREATE TABLE outboxes (
    adapter text COLLATE "C" PRIMARY KEY,
    -- Counted up with every change: one that was made of an older version changes nothing.
    version bigint NOT NULL,
    doc     bytea NOT NULL
);

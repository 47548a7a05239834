-- How far adapters have come with passing on the log. Operational: folded from nothing, and not replayed.

CREATE TABLE outboxes (
    adapter TEXT PRIMARY KEY,
    -- Counted up with every change: one that was made of an older version changes nothing.
    version INTEGER NOT NULL,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What names an artifact. Derived, like the tables before.

CREATE TABLE artifact_refs (
    key    TEXT PRIMARY KEY,
    sha256 TEXT,
    doc    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX artifact_refs_sha256 ON artifact_refs (sha256) WHERE sha256 IS NOT NULL;

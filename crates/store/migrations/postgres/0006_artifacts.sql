-- What names an artifact. Derived, like the tables before.

CREATE TABLE artifact_refs (
    key    text COLLATE "C" PRIMARY KEY,
    sha256 text COLLATE "C",
    doc    bytea NOT NULL
);
CREATE INDEX artifact_refs_sha256 ON artifact_refs (sha256) WHERE sha256 IS NOT NULL;

-- Pieces come in before it is known what they are the hash of, so they belong to a blob, and an artifact to the one that it
-- is made of. Each piece has its own hash, so that a part of an artifact can be verified.

ALTER TABLE artifact_chunks DROP CONSTRAINT artifact_chunks_sha256_fkey;
ALTER TABLE artifact_chunks RENAME COLUMN sha256 TO blob;
ALTER TABLE artifact_chunks ADD COLUMN hash bytea;
UPDATE artifact_chunks SET hash = sha256(data);
ALTER TABLE artifact_chunks ALTER COLUMN hash SET NOT NULL;

ALTER TABLE artifacts ADD COLUMN blob text COLLATE "C";
UPDATE artifacts SET blob = sha256;
ALTER TABLE artifacts ALTER COLUMN blob SET NOT NULL;

-- Operational: blobs that no artifact is made of. They are under way until then; after that, they are to be removed.
CREATE TABLE artifact_blobs (
    id    text   COLLATE "C" PRIMARY KEY,
    until bigint NOT NULL
);
CREATE INDEX artifact_blobs_until ON artifact_blobs (until);

-- Workspaces: folders in which work on a branch goes on apart from others.

CREATE TABLE workspaces (
    key     TEXT PRIMARY KEY,
    created INTEGER,
    run     TEXT,
    status  TEXT,
    -- The site and the path, while a worktree is there or is being made.
    place   TEXT,
    -- The site, the branch and the repository, for as long.
    branch  TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workspaces_created ON workspaces (created);
CREATE INDEX workspaces_run ON workspaces (run) WHERE run IS NOT NULL;
CREATE INDEX workspaces_status ON workspaces (status) WHERE status IS NOT NULL;
CREATE INDEX workspaces_place ON workspaces (place) WHERE place IS NOT NULL;
CREATE INDEX workspaces_branch ON workspaces (branch) WHERE branch IS NOT NULL;

-- Teams that a runner runs, and the turns of their agents. Derived, like the tables before.

CREATE TABLE teams (
    key     TEXT PRIMARY KEY,
    live    INTEGER,
    started INTEGER,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX teams_live ON teams (live, started) WHERE live IS NOT NULL;
CREATE INDEX teams_started ON teams (started) WHERE started IS NOT NULL;

CREATE TABLE turns (
    key     TEXT PRIMARY KEY,
    started INTEGER,
    agent   TEXT,
    team    TEXT,
    doc     BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_started ON turns (started) WHERE started IS NOT NULL;
CREATE INDEX turns_agent ON turns (agent, started) WHERE agent IS NOT NULL;
CREATE INDEX turns_team ON turns (team, started) WHERE team IS NOT NULL;

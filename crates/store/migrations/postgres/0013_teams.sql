-- Teams that a runner runs, and the turns of their agents. Derived, like the tables before.

CREATE TABLE teams (
    key     text COLLATE "C" PRIMARY KEY,
    live    bigint,
    started bigint,
    doc     bytea NOT NULL
);
CREATE INDEX teams_live ON teams (live, started NULLS FIRST, key) WHERE live IS NOT NULL;
CREATE INDEX teams_started ON teams (started) WHERE started IS NOT NULL;

CREATE TABLE turns (
    key     text COLLATE "C" PRIMARY KEY,
    started bigint,
    agent   text COLLATE "C",
    team    text COLLATE "C",
    doc     bytea NOT NULL
);
CREATE INDEX turns_started ON turns (started) WHERE started IS NOT NULL;
CREATE INDEX turns_agent ON turns (agent, started NULLS FIRST, key) WHERE agent IS NOT NULL;
CREATE INDEX turns_team ON turns (team, started NULLS FIRST, key) WHERE team IS NOT NULL;

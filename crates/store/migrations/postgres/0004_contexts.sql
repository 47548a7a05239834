-- What is configured for the context of instances. Derived, like the tables before.

CREATE TABLE contexts (
    key   text COLLATE "C" PRIMARY KEY,
    -- Whether it is for one instance or for the project.
    scope text COLLATE "C",
    doc   bytea NOT NULL
);
CREATE INDEX contexts_scope ON contexts (scope) WHERE scope IS NOT NULL;

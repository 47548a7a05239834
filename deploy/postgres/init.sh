#!/bin/sh
# Run once, when the database is new: a user for Rookery that owns its database and nothing else.
set -eu

psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=postgres <<'SQL'
\getenv password ROOKERY_DB_PASSWORD
CREATE ROLE rookery LOGIN PASSWORD :'password';
-- Its owner may create schemas in it.
CREATE DATABASE rookery OWNER rookery;
REVOKE ALL ON DATABASE rookery FROM PUBLIC;
SQL

//! A private PostgreSQL with durable commits and one database for each user of it.

use anyhow::Context;
use rookery_testdb::{Programs, Server, psql};

/// The reason why PostgreSQL cannot be measured, if it is missing.
pub(crate) fn available() -> anyhow::Result<()> {
    Programs::find().map(drop)
}

#[derive(Debug)]
pub(crate) struct Databases {
    server: Server,
}

impl Databases {
    pub(crate) fn start() -> anyhow::Result<Databases> {
        Ok(Databases { server: Server::durable().context("cannot start PostgreSQL")? })
    }

    /// Creates an empty database and returns its URL.
    pub(crate) fn create(&self, name: &str) -> anyhow::Result<String> {
        self.server.psql(&format!("CREATE DATABASE {name}"))?;
        Ok(self.server.url_of(name))
    }

    /// Runs the maintenance that the server would otherwise start by itself after many inserts: statistics and visibility.
    pub(crate) fn tidy(&self, name: &str) -> anyhow::Result<()> {
        psql(&self.server.url_of(name), "VACUUM (ANALYZE)").map(drop)
    }
}

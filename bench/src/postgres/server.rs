//! A private PostgreSQL that writes through to the disk, with a database for each of those that share it.

use anyhow::Context;
use rookery_testdb::{Programs, Server, psql};

/// Why there is no PostgreSQL to measure, if there is none.
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

    /// The URL of a new and empty database.
    pub(crate) fn create(&self, name: &str) -> anyhow::Result<String> {
        self.server.psql(&format!("CREATE DATABASE {name}"))?;
        Ok(self.server.url_of(name))
    }

    /// What the server does by itself some time after so many rows have come: statistics, and which rows all may see.
    pub(crate) fn tidy(&self, name: &str) -> anyhow::Result<()> {
        psql(&self.server.url_of(name), "VACUUM (ANALYZE)").map(drop)
    }
}

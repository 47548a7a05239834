//! PostgreSQL for tests: a private server, or a private schema in the server that all tests share.

use anyhow::{Context, Result};
use rand::Rng;

pub use rookery_testdb::{Options, Server, psql};

/// The environment variable with the URL of the shared server.
pub const SHARED: &str = "ROOKERY_TEST_POSTGRES";

/// The unique name of a schema. Opening a store at its URL creates the schema; dropping this value drops it with its
/// contents.
#[derive(Debug)]
pub struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// Names a schema in the shared server.
    pub fn new() -> Result<Schema> {
        let server = std::env::var(SHARED).with_context(|| {
            format!(
                "{SHARED} is not set: run `cargo xtask test`, or `cargo xtask postgres` in another terminal and export \
                 what it prints"
            )
        })?;
        Ok(Schema::at(server))
    }

    /// Names a schema in another server.
    pub fn at(server: impl Into<String>) -> Schema {
        let random_char = || char::from(rand::rng().random_range(b'a'..=b'z'));
        let name = std::iter::repeat_with(random_char).take(16).collect::<String>();
        Schema { server: server.into(), name: format!("t_{name}") }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store URL: the server's URL with `schema=`.
    pub fn url(&self) -> String {
        self.url_at(&self.server)
    }

    /// The store URL by another address of the same server, such as a proxy.
    pub fn url_at(&self, server: &str) -> String {
        let separator = if server.contains('?') { '&' } else { '?' };
        format!("{server}{separator}schema={}", self.name)
    }

    /// Runs SQL in the schema and returns the output of `psql`, without headings.
    pub fn psql(&self, sql: &str) -> Result<String> {
        psql(&self.server, &format!("SET search_path TO {}; {sql}", self.name))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        // Best effort: the test may have ended the server, or left a connection that holds a lock.
        let sql = format!("SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {} CASCADE", self.name);
        psql(&self.server, &sql).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_url_adds_a_parameter() {
        // Nothing listens on port 1, so dropping the schema fails at once, without harm.
        let schema = Schema::at("postgres://rookery@127.0.0.1:1/rookery");
        assert_eq!(schema.url(), format!("postgres://rookery@127.0.0.1:1/rookery?schema={}", schema.name()));
        assert!(schema.url_at("postgres://h/d?sslmode=disable").ends_with(&format!("&schema={}", schema.name())));
        assert!(schema.name().len() == 18 && schema.name().starts_with("t_"), "{}", schema.name());
    }
}

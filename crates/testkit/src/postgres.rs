//! PostgreSQL for tests: a server of a test's own, or a schema of its own in the server that all tests share.

use anyhow::{Context, Result};
use rand::Rng;

pub use rookery_testdb::{Options, Server, psql};

/// The variable that names the shared server, by URL.
pub const SHARED: &str = "ROOKERY_TEST_POSTGRES";

/// A schema that nobody else uses. Whoever opens the URL creates it; it is dropped, with all it holds, when this is.
#[derive(Debug)]
pub struct Schema {
    server: String,
    name: String,
}

impl Schema {
    /// In the shared server.
    pub fn new() -> Result<Schema> {
        let server = std::env::var(SHARED).with_context(|| {
            format!(
                "{SHARED} is not set: run `cargo xtask test`, or `cargo xtask postgres` in another terminal and export \
                 what it prints"
            )
        })?;
        Ok(Schema::at(server))
    }

    /// In another server.
    pub fn at(server: impl Into<String>) -> Schema {
        let letter = || char::from(rand::rng().random_range(b'a'..=b'z'));
        let name = std::iter::repeat_with(letter).take(16).collect::<String>();
        Schema { server: server.into(), name: format!("t_{name}") }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the store finds it: the server's URL with `schema=`.
    pub fn url(&self) -> String {
        self.url_at(&self.server)
    }

    /// The same schema by another way to the same server, such as a proxy.
    pub fn url_at(&self, server: &str) -> String {
        let separator = if server.contains('?') { '&' } else { '?' };
        format!("{server}{separator}schema={}", self.name)
    }

    /// Runs SQL in the schema and tells what `psql` printed, without headings.
    pub fn psql(&self, sql: &str) -> Result<String> {
        psql(&self.server, &format!("SET search_path TO {}; {sql}", self.name))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        // At best: a test may have ended the server, or left a connection that holds a lock.
        let sql = format!("SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {} CASCADE", self.name);
        let _dropped = psql(&self.server, &sql);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_one_more_parameter_of_the_url() {
        // Nothing listens on port 1: dropping the schema fails at once, and nobody minds.
        let schema = Schema::at("postgres://rookery@127.0.0.1:1/rookery");
        assert_eq!(schema.url(), format!("postgres://rookery@127.0.0.1:1/rookery?schema={}", schema.name()));
        assert!(schema.url_at("postgres://h/d?sslmode=disable").ends_with(&format!("&schema={}", schema.name())));
        assert!(schema.name().len() == 18 && schema.name().starts_with("t_"), "{}", schema.name());
    }
}

//! Where a PostgreSQL store is: a URL, of which the schema and what to check of the server's certificate are ours.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// The schema of a URL that names none.
pub const DEFAULT_SCHEMA: &str = "rookery";

/// Channels are named after the schema, and names end after 63 bytes.
const SCHEMA_BYTES: usize = 48;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that is gone without a word is noticed after about this long.
const UNANSWERED: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Address {
    config: Config,
    schema: String,
    trust: ServerTrust,
    root_certificates: Option<PathBuf>,
}

/// What is asked of the server's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerTrust {
    /// Nothing: the connection is encrypted, and nobody knows with whom.
    Anybody,
    /// A known authority issued it for the host that we connect to.
    Verified,
}

#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("it is no address of a PostgreSQL database: {0}")]
    Url(tokio_postgres::Error),
    #[error("it does not begin with postgres://")]
    Scheme,
    #[error(
        "schema '{0}' cannot be used: take 1 to 48 small letters, digits or underscores that do not begin with a digit \
         or with pg_"
    )]
    Schema(String),
    #[error("sslmode '{0}' is not known: it is disable, prefer, require, verify-ca or verify-full")]
    SslMode(String),
    #[error("'{0}' is no percent-encoded text")]
    Encoding(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Address, AddressError> {
        if !is_postgres(url) {
            return Err(AddressError::Scheme);
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut schema = DEFAULT_SCHEMA.to_owned();
        let (mut ssl, mut root_certificates, mut rest) = ("prefer".to_owned(), None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("schema", value)) => schema = decoded(value)?,
                Some(("sslmode", value)) => ssl = decoded(value)?,
                Some(("sslrootcert", value)) => root_certificates = Some(PathBuf::from(decoded(value)?)),
                _ => rest.push(pair),
            }
        }
        check_schema(&schema)?;
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config: Config = plain.parse().map_err(AddressError::Url)?;
        let (mode, trust) = match ssl.as_str() {
            "disable" => (SslMode::Disable, ServerTrust::Anybody),
            "allow" | "prefer" => (SslMode::Prefer, ServerTrust::Anybody),
            // As with other programs: naming an authority means to ask for it.
            "require" if root_certificates.is_none() => (SslMode::Require, ServerTrust::Anybody),
            // We never check less than all of it.
            "require" | "verify-ca" | "verify-full" => (SslMode::Require, ServerTrust::Verified),
            _ => return Err(AddressError::SslMode(ssl)),
        };
        config.ssl_mode(mode);
        config.application_name("rookery");
        config.connect_timeout(config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT));
        config.keepalives_idle(UNANSWERED / 2);
        config.keepalives_interval(UNANSWERED / 4);
        config.keepalives_retries(2);
        config.tcp_user_timeout(UNANSWERED);
        if config.get_target_session_attrs() == TargetSessionAttrs::Any && config.get_hosts().len() > 1 {
            // Of several servers, the one that takes writes is meant.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(Address { config, schema, trust, root_certificates })
    }
}

/// Whether a store's address is one of these.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn check_schema(schema: &str) -> Result<(), AddressError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && schema.len() <= SCHEMA_BYTES && schema.chars().all(fits) && !schema.starts_with("pg_") {
        return Ok(());
    }
    Err(AddressError::Schema(schema.to_owned()))
}

fn decoded(text: &str) -> Result<String, AddressError> {
    let bad = || AddressError::Encoding(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().ok_or_else(bad)?, rest.next().ok_or_else(bad)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| bad())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

impl Address {
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The channel on which nodes tell each other of news.
    pub(super) fn channel(&self) -> String {
        format!("rookery_{}", self.schema)
    }

    pub(super) fn trust(&self) -> ServerTrust {
        self.trust
    }

    pub(super) fn root_certificates(&self) -> Option<&PathBuf> {
        self.root_certificates.as_ref()
    }

    /// How to connect for one purpose; every session begins with these settings.
    pub(super) fn config(&self, purpose: &str, settings: &[(&str, &str)]) -> Config {
        let mut config = self.config.clone();
        let mut options = config.get_options().unwrap_or_default().to_owned();
        for (name, value) in settings {
            options.push_str(&format!(" -c {name}={value}"));
        }
        options.push_str(&format!(" -c search_path={}", self.schema));
        config.options(options.trim_start());
        config.application_name(format!("rookery {purpose}"));
        config
    }
}

/// Without secrets: what people and logs may see.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .enumerate()
            .map(|(at, host)| {
                let ports = self.config.get_ports();
                let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
                match host {
                    Host::Tcp(host) => format!("{host}:{port}"),
                    Host::Unix(path) => format!("{}:{port}", path.display()),
                }
            })
            .collect();
        let user = self.config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        let database = self.config.get_dbname().unwrap_or_default();
        write!(f, "postgres://{user}{}/{database}?schema={}", hosts.join(","), self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> Address {
        url.parse().unwrap()
    }

    #[test]
    fn the_schema_is_ours_and_the_rest_is_the_drivers() {
        let found = address("postgres://ann:secret@db.example:6543/team?schema=blue&connect_timeout=2");
        assert_eq!(found.to_string(), "postgres://ann@db.example:6543/team?schema=blue");
        assert_eq!(found.channel(), "rookery_blue");
        assert_eq!(found.config.get_connect_timeout(), Some(&Duration::from_secs(2)));
        assert_eq!(address("postgresql://h/d").schema(), "rookery");
    }

    #[test]
    fn a_socket_is_a_host_too() {
        let found = address("postgres://rookery@%2Frun%2Fpg/team");
        assert_eq!(found.to_string(), "postgres://rookery@/run/pg:5432/team?schema=rookery");
    }

    #[test]
    fn how_far_the_server_is_trusted_follows_the_sslmode() {
        for (mode, ssl, trust) in [
            ("", SslMode::Prefer, ServerTrust::Anybody),
            ("?sslmode=disable", SslMode::Disable, ServerTrust::Anybody),
            ("?sslmode=require", SslMode::Require, ServerTrust::Anybody),
            ("?sslmode=require&sslrootcert=ca.pem", SslMode::Require, ServerTrust::Verified),
            ("?sslmode=verify-full", SslMode::Require, ServerTrust::Verified),
        ] {
            let found = address(&format!("postgres://h/d{mode}"));
            assert_eq!((found.config.get_ssl_mode(), found.trust), (ssl, trust), "{mode}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        for (url, says) in [
            ("mysql://h/d", "postgres://"),
            ("postgres://h/d?schema=Blue", "'Blue'"),
            ("postgres://h/d?schema=a%22b", "cannot be used"),
            ("postgres://h/d?schema=pg_x", "pg_x"),
            ("postgres://h/d?sslmode=maybe", "maybe"),
            ("postgres://h/d?nonsense=1", "nonsense"),
        ] {
            let error = url.parse::<Address>().unwrap_err();
            let mut said = error.to_string();
            if let AddressError::Url(cause) = &error {
                said.push_str(&std::error::Error::source(cause).map(ToString::to_string).unwrap_or_default());
            }
            assert!(said.contains(says), "{url}: {said}");
        }
    }
}

//! Hosts that the daemon may post to, and the hosts that a sandbox may reach.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A host, with a port or for all of its ports. Written `host`, `host:port` or `[address]:port`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct AllowedHost {
    /// In lower case, without brackets and without a dot at the end.
    host: String,
    port: Option<u16>,
}

impl AllowedHost {
    pub fn new(host: &str, port: Option<u16>) -> AllowedHost {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        AllowedHost { host: host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(), port }
    }

    /// The host and port of an http or https URL.
    pub fn of_url(url: &str) -> Option<AllowedHost> {
        let (scheme, rest) = url.split_once("://")?;
        let usual = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let allowed: AllowedHost = rest.split(['/', '?', '#']).next()?.parse().ok()?;
        Some(AllowedHost { port: allowed.port.or(Some(usual)), ..allowed })
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether this rule covers a host at a port. Names are compared as they are written; a port that is not given is any.
    pub fn covers(&self, target: &AllowedHost) -> bool {
        self.host == target.host && (self.port.is_none() || self.port == target.port)
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedHost, String> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) if host.parse::<Ipv6Addr>().is_ok() => (host, None),
            Some((host, rest)) if host.parse::<Ipv6Addr>().is_ok() => {
                (host, Some(rest.strip_prefix(':').unwrap_or("?")))
            }
            Some(_) => return Err(format!("'{text}' is not an IPv6 address in brackets")),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port =
            match port {
                None => None,
                Some(digits) => {
                    let number = digits.parse().ok().filter(|port| *port > 0);
                    Some(number.ok_or_else(|| {
                        format!("'{text}' has no valid port; write host, host:port or [address]:port")
                    })?)
                }
            };
        if !is_host(host) && !text.starts_with('[') {
            return Err(format!("'{text}' does not name a host; write host, host:port or [address]:port"));
        }
        Ok(AllowedHost::new(host, port))
    }
}

/// Whether a text can be the name of one host, or its IPv4 address in the usual form.
fn is_host(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let named = !text.is_empty() && text.len() <= 253 && text.bytes().all(known);
    named && (!is_numeric(text) || text.parse::<Ipv4Addr>().is_ok())
}

/// Whether URL parsers read a name as an IPv4 address: its last label is a number, decimal or hexadecimal.
pub fn is_numeric(host: &str) -> bool {
    let last = host.strip_suffix('.').unwrap_or(host).rsplit('.').next().unwrap_or_default();
    let hex = last.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x"));
    let digits = if hex { &last[2..] } else { last };
    match hex {
        true => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        false => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl Serialize for AllowedHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AllowedHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AllowedHost, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The hosts that an agent's sandbox may reach by rules that name them exactly.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SandboxReach {
    pub hosts: Vec<AllowedHost>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn allowed(text: &str) -> AllowedHost {
        text.parse().unwrap()
    }

    #[test]
    fn allowed_host_is_written_as_it_was_read() {
        for text in ["ken", "ken:8080", "10.0.0.7", "[::1]", "[::1]:80", "a_b.example:1"] {
            assert_eq!(allowed(text).to_string(), text);
            assert_eq!(serde_json::from_value::<AllowedHost>(json!(text)).unwrap(), allowed(text));
        }
        assert_eq!(allowed("KEN.:80"), allowed("ken:80"));
        for bad in [
            "",
            ":80",
            "ken:",
            "ken:0",
            "ken:x",
            "ken:1:2",
            "http://ken",
            "ken/x",
            "me@ken",
            "*.ken",
            "::1",
            "[ken]",
            "[::1]x",
            "[::1%eth0]:80",
            "2130706433",
            "0x7f.1",
            "127.1",
            "ken\n",
            "k en",
        ] {
            assert!(bad.parse::<AllowedHost>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn url_of_endpoint_is_compared_by_host_and_port() {
        for (rule, url, covers) in [
            ("ken:8080", "http://KEN:8080/x", true),
            ("ken:8080", "http://ken/x", false),
            ("ken:443", "https://ken/x?y#z", true),
            ("ken:80", "https://ken/", false),
            ("ken", "https://ken:9/", true),
            ("[::1]:9", "http://[::1]:9/", true),
            ("127.0.0.1:9", "http://127.0.0.1:9", true),
            ("127.0.0.1:9", "http://0x7f.1:9", false),
            ("127.0.0.1:9", "http://2130706433:9", false),
            ("ken:80", "http://ken.evil.example/", false),
            ("ken:80", "http://ken@evil.example/", false),
            ("ken:80", "http://evil.example/#@ken/", false),
        ] {
            let target = AllowedHost::of_url(url);
            assert_eq!(target.is_some_and(|target| allowed(rule).covers(&target)), covers, "{rule} {url}");
        }
    }
}

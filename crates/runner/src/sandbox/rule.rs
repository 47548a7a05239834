//! Rules for the hosts that an agent may reach: a name, optionally with a port or a `*.` for all hosts below it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rookery_core::Area;
use rookery_core::kernel::outbound::{AllowedHost, is_numeric};

/// Ports of a rule without one.
const WEB: [u16; 2] = [80, 443];

/// A rule for one host, or for all hosts below one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// In lower case.
    name: String,
    below: bool,
    port: Option<u16>,
    source: RuleSource,
}

/// The authority behind a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RuleSource {
    /// A person named the host, which may be in a private network.
    Person,
    /// Built in: a program is known to need the host, which is on the public network.
    Ours,
}

impl Rule {
    /// Parses a rule of a workflow file that passed the checks: `api.github.com`, `*.crates.io`, `localhost:8080`.
    pub fn parse(text: &str) -> Rule {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (text, None),
        };
        let (name, below) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
        Rule {
            name: canonical(name).unwrap_or_else(|| name.to_ascii_lowercase()),
            below,
            port,
            source: RuleSource::Person,
        }
    }

    /// A rule for a host without which a program cannot work.
    pub(super) fn built_in(text: &str) -> Rule {
        Rule { source: RuleSource::Ours, ..Rule::parse(text) }
    }

    /// The host of an address that a person configured, such as that of a model.
    pub fn from_url(url: &str) -> Option<Rule> {
        let NetworkTarget { host, port } = NetworkTarget::from_url(url)?;
        Some(Rule { name: host, below: false, port: Some(port), source: RuleSource::Person })
    }

    fn covers(&self, target: &NetworkTarget) -> bool {
        let name = match self.below {
            false => target.host == self.name,
            true => target.host.strip_suffix(&self.name).is_some_and(|below| below.ends_with('.') && below.len() > 1),
        };
        name && match self.port {
            Some(port) => port == target.port,
            None => WEB.contains(&target.port),
        }
    }

    /// The widest area that the rule permits.
    fn area(&self) -> Area {
        match self.source {
            // An address literal means exactly that address.
            RuleSource::Person if self.name.parse::<IpAddr>().is_ok() => Area::Anywhere,
            RuleSource::Person if !self.below => Area::Nearby,
            RuleSource::Person | RuleSource::Ours => Area::Public,
        }
    }

    /// The hosts and ports that a person named exactly; none for a rule with `*`.
    pub(super) fn exact_hosts(&self) -> Vec<AllowedHost> {
        if self.below || self.source == RuleSource::Ours {
            return vec![];
        }
        let ports = self.port.map_or_else(|| WEB.to_vec(), |port| vec![port]);
        ports.into_iter().map(|port| AllowedHost::new(&self.name, Some(port))).collect()
    }

    /// The target of the rule, if it is a server on this machine.
    pub(super) fn on_loopback(&self) -> Option<NetworkTarget> {
        let here = self.name == "localhost" || self.name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let port = self.port.filter(|_| here && !self.below)?;
        Some(NetworkTarget { host: self.name.clone(), port })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A host and port that a program wants to reach.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct NetworkTarget {
    /// In lower case, without brackets and without a trailing dot.
    pub host: String,
    pub port: u16,
}

impl NetworkTarget {
    /// Parses `host:port`, `[::1]:443` or, with a default port, `host`.
    pub(super) fn parse(authority: &str, usual: Option<u16>) -> Option<NetworkTarget> {
        let (host, port) = split_authority(authority)?;
        Some(NetworkTarget { host: canonical(host)?, port: port.or(usual)? })
    }

    /// The host in the form of URLs: an IPv6 address in brackets.
    pub(super) fn host_in_url(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// The canonical form of a host: names in lower case without a trailing dot, addresses in their usual form. `None` for a
/// malformed address, and for a name with an empty label.
fn canonical(host: &str) -> Option<String> {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if host.contains(':') {
        return host.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical().to_string());
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if is_numeric(&host) {
        return legacy_ipv4(&host).map(|address| address.to_string());
    }
    host.split('.').all(|label| !label.is_empty()).then_some(host)
}

/// Parses an IPv4 address in any form that resolvers accept: one to four numbers, decimal, octal or hexadecimal.
fn legacy_ipv4(text: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| match part.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(&part[1..], 8).ok(),
        None => part.parse().ok(),
    };
    let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
    let (last, first) = parts.as_ref()?.split_last()?;
    let room = 4_u32.checked_sub(u32::try_from(first.len()).ok()?).filter(|room| *room > 0)?;
    if first.iter().any(|part| *part > 255) || (room < 4 && *last >= 1 << (8 * room)) {
        return None;
    }
    let high = first.iter().fold(0_u32, |high, part| high << 8 | part);
    let high = if room == 4 { 0 } else { high << (8 * room) };
    Some(Ipv4Addr::from(high | last))
}

impl NetworkTarget {
    /// The host and port of a URL.
    pub(super) fn from_url(url: &str) -> Option<NetworkTarget> {
        let (scheme, rest) = url.split_once("://")?;
        let usual = match scheme {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        NetworkTarget::parse(authority.rsplit_once('@').map_or(authority, |(_, host)| host), Some(usual))
    }
}

impl fmt::Display for NetworkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

fn split_authority(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|port| *port > 0)?) };
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
    (!host.is_empty() && host.bytes().all(known)).then_some((host, port))
}

/// All hosts that an agent may reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NetworkRules(pub Vec<Rule>);

impl NetworkRules {
    /// The widest area that a target may resolve to; `None` if no rule covers it.
    pub(super) fn area(&self, target: &NetworkTarget) -> Option<Area> {
        self.0.iter().filter(|rule| rule.covers(target)).map(Rule::area).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> NetworkRules {
        NetworkRules(texts.iter().map(|text| Rule::parse(text)).collect())
    }

    fn area(rules: &NetworkRules, target: &str) -> Option<Area> {
        rules.area(&NetworkTarget::parse(target, None).unwrap())
    }

    #[test]
    fn host_with_an_empty_label_is_rejected() {
        for bad in ["a..b:80", ".crates.io:443", "a..:80", ".:80", "..:80"] {
            assert!(NetworkTarget::parse(bad, None).is_none(), "{bad}");
        }
        assert_eq!(NetworkTarget::parse("A.b.:80", None).unwrap().host, "a.b");
    }

    #[test]
    fn rule_matches_its_host_and_no_other() {
        let rules = rules(&["api.github.com", "*.crates.io", "localhost:8080", "10.0.0.7"]);
        for (target, wanted) in [
            ("api.github.com:443", Some(Area::Nearby)),
            ("API.GitHub.com.:80", Some(Area::Nearby)),
            ("api.github.com:22", None),
            ("evil-api.github.com:443", None),
            ("api.github.com.evil.example:443", None),
            ("static.crates.io:443", Some(Area::Public)),
            ("a.b.crates.io:443", Some(Area::Public)),
            ("crates.io:443", None),
            ("notcrates.io:443", None),
            ("localhost:8080", Some(Area::Nearby)),
            ("localhost:8081", None),
            ("10.0.0.7:80", Some(Area::Anywhere)),
            ("10.0.0.8:80", None),
        ] {
            assert_eq!(area(&rules, target), wanted, "{target}");
        }
    }

    #[test]
    fn rule_from_a_url_matches_only_its_port() {
        let rule = Rule::from_url("http://127.0.0.1:4321/v1").unwrap();
        assert_eq!(
            (rule.to_string().as_str(), rule.on_loopback()),
            ("127.0.0.1:4321", NetworkTarget::parse("127.0.0.1:4321", None))
        );
        for (url, shown) in [
            ("https://api.example.com/v1", "api.example.com:443"),
            ("http://user:secret@Proxy.example?x", "proxy.example:80"),
            ("http://[::1]:9/", "::1:9"),
        ] {
            assert_eq!(Rule::from_url(url).unwrap().to_string(), shown);
        }
        for bad in ["", "api.example.com", "ftp://a/", "https://", "http://a b/", "http://a:99999/"] {
            assert_eq!(Rule::from_url(bad), None, "{bad}");
        }
        assert_eq!(Rule::parse("api.github.com").on_loopback(), None);
        assert_eq!(Rule::parse("localhost").on_loopback(), None, "the port is not given");
    }

    #[test]
    fn built_in_rule_excludes_private_networks() {
        let rules = NetworkRules(vec![Rule::built_in("api.anthropic.com")]);
        assert_eq!(area(&rules, "api.anthropic.com:443"), Some(Area::Public));
    }

    #[test]
    fn targets_are_parsed_strictly() {
        for (text, host, port) in [("a:1", "a", 1), ("[::1]:443", "::1", 443), ("A.b:80", "a.b", 80)] {
            assert_eq!(NetworkTarget::parse(text, None), Some(NetworkTarget { host: host.into(), port }), "{text}");
        }
        assert_eq!(NetworkTarget::parse("a", Some(80)).unwrap().to_string(), "a:80");
        assert_eq!(NetworkTarget::parse("[::1]", Some(80)).unwrap().to_string(), "[::1]:80");
        for bad in ["", ":1", "a", "a:0", "a:b", "a:1:2", "[::1", "[::1]x:1", "a\r\nb:1", "a/b:1", "user@a:1"] {
            assert_eq!(NetworkTarget::parse(bad, None), None, "{bad:?}");
        }
    }
}

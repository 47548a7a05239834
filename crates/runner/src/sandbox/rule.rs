//! Which hosts an agent may reach: a name, perhaps with a port, perhaps for everything below it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rookery_core::Area;
use rookery_core::kernel::outbound::{AllowedHost, is_numeric};

/// Where the web is, if no port is said.
const WEB: [u16; 2] = [80, 443];

/// One host, or all below one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// In small letters.
    name: String,
    below: bool,
    port: Option<u16>,
    word: Word,
}

/// Whose word it is that the host may be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    /// The person's, who may name a host of a private network.
    Person,
    /// Ours: what a program is known to need is on the open network.
    Ours,
}

impl Rule {
    /// As a workflow file says it: `api.github.com`, `*.crates.io`, `localhost:8080`. The file was checked.
    pub fn said(text: &str) -> Rule {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (text, None),
        };
        let (name, below) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
        Rule { name: canonical(name).unwrap_or_else(|| name.to_ascii_lowercase()), below, port, word: Word::Person }
    }

    /// A host that a program needs to do anything at all.
    pub(super) fn needed(text: &str) -> Rule {
        Rule { word: Word::Ours, ..Rule::said(text) }
    }

    /// The host of an address that the person wrote down, such as the one of a model.
    pub fn of_url(url: &str) -> Option<Rule> {
        let Target { host, port } = Target::of_url(url)?;
        Some(Rule { name: host, below: false, port: Some(port), word: Word::Person })
    }

    fn covers(&self, target: &Target) -> bool {
        let name = match self.below {
            false => target.host == self.name,
            true => target.host.strip_suffix(&self.name).is_some_and(|below| below.ends_with('.') && below.len() > 1),
        };
        name && match self.port {
            Some(port) => port == target.port,
            None => WEB.contains(&target.port),
        }
    }

    /// How far from the open network it may lead.
    fn area(&self) -> Area {
        match self.word {
            // Whoever writes down an address means that one.
            Word::Person if self.name.parse::<IpAddr>().is_ok() => Area::Anywhere,
            Word::Person if !self.below => Area::Nearby,
            Word::Person | Word::Ours => Area::Public,
        }
    }

    /// The hosts and ports that a person named by exactly this rule; none for a rule with `*`.
    pub(super) fn exact_hosts(&self) -> Vec<AllowedHost> {
        if self.below || self.word == Word::Ours {
            return vec![];
        }
        let ports = self.port.map_or_else(|| WEB.to_vec(), |port| vec![port]);
        ports.into_iter().map(|port| AllowedHost::new(&self.name, Some(port))).collect()
    }

    /// What is reached by it, if that is a server on this machine.
    pub(super) fn on_loopback(&self) -> Option<Target> {
        let here = self.name == "localhost" || self.name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let port = self.port.filter(|_| here && !self.below)?;
        Some(Target { host: self.name.clone(), port })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// What somebody wants to reach.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Target {
    /// In small letters, without brackets and without a dot at the end.
    pub host: String,
    pub port: u16,
}

impl Target {
    /// From `host:port`, `[::1]:443` or, with a usual port, `host`.
    pub(super) fn parse(authority: &str, usual: Option<u16>) -> Option<Target> {
        let (host, port) = split_authority(authority)?;
        Some(Target { host: canonical(host)?, port: port.or(usual)? })
    }

    /// The host as URLs have it: an IPv6 address in brackets.
    pub(super) fn host_in_url(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// A host as it is compared: names in lower case without a dot at the end, addresses in their usual form. `None` for one
/// that looks like an address and is none, and for a name with an empty part.
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

/// An IPv4 address in any form that resolvers take: one to four numbers, decimal, octal or hexadecimal.
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

impl Target {
    /// Where an address of the web leads.
    pub(super) fn of_url(url: &str) -> Option<Target> {
        let (scheme, rest) = url.split_once("://")?;
        let usual = match scheme {
            "http" | "ws" => 80,
            "https" | "wss" => 443,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        Target::parse(authority.rsplit_once('@').map_or(authority, |(_, host)| host), Some(usual))
    }
}

impl fmt::Display for Target {
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

/// All that an agent may reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Rules(pub Vec<Rule>);

impl Rules {
    /// How far from the open network a target may be; `None` if it may not be reached at all.
    pub(super) fn area(&self, target: &Target) -> Option<Area> {
        self.0.iter().filter(|rule| rule.covers(target)).map(Rule::area).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(said: &[&str]) -> Rules {
        Rules(said.iter().map(|text| Rule::said(text)).collect())
    }

    fn area(rules: &Rules, target: &str) -> Option<Area> {
        rules.area(&Target::parse(target, None).unwrap())
    }

    #[test]
    fn host_with_an_empty_part_is_no_target() {
        for bad in ["a..b:80", ".crates.io:443", "a..:80", ".:80", "..:80"] {
            assert!(Target::parse(bad, None).is_none(), "{bad}");
        }
        assert_eq!(Target::parse("A.b.:80", None).unwrap().host, "a.b");
    }

    #[test]
    fn a_name_is_that_host_and_no_other() {
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
    fn the_host_of_an_address_is_reached_at_its_port_only() {
        let rule = Rule::of_url("http://127.0.0.1:4321/v1").unwrap();
        assert_eq!(
            (rule.to_string().as_str(), rule.on_loopback()),
            ("127.0.0.1:4321", Target::parse("127.0.0.1:4321", None))
        );
        for (url, shown) in [
            ("https://api.example.com/v1", "api.example.com:443"),
            ("http://user:secret@Proxy.example?x", "proxy.example:80"),
            ("http://[::1]:9/", "::1:9"),
        ] {
            assert_eq!(Rule::of_url(url).unwrap().to_string(), shown);
        }
        for bad in ["", "api.example.com", "ftp://a/", "https://", "http://a b/", "http://a:99999/"] {
            assert_eq!(Rule::of_url(bad), None, "{bad}");
        }
        assert_eq!(Rule::said("api.github.com").on_loopback(), None);
        assert_eq!(Rule::said("localhost").on_loopback(), None, "which port is not said");
    }

    #[test]
    fn what_we_know_of_a_program_leads_into_no_private_network() {
        let rules = Rules(vec![Rule::needed("api.anthropic.com")]);
        assert_eq!(area(&rules, "api.anthropic.com:443"), Some(Area::Public));
    }

    #[test]
    fn targets_are_read_strictly() {
        for (text, host, port) in [("a:1", "a", 1), ("[::1]:443", "::1", 443), ("A.b:80", "a.b", 80)] {
            assert_eq!(Target::parse(text, None), Some(Target { host: host.into(), port }), "{text}");
        }
        assert_eq!(Target::parse("a", Some(80)).unwrap().to_string(), "a:80");
        assert_eq!(Target::parse("[::1]", Some(80)).unwrap().to_string(), "[::1]:80");
        for bad in ["", ":1", "a", "a:0", "a:b", "a:1:2", "[::1", "[::1]x:1", "a\r\nb:1", "a/b:1", "user@a:1"] {
            assert_eq!(Target::parse(bad, None), None, "{bad:?}");
        }
    }
}

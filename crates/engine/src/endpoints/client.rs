//! How a message gets to an endpoint: one POST, and what was answered.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderValue;
use reqwest::{Client, Url, redirect};
use rookery_core::kernel::outbound::AllowedHost;
use rookery_core::{AgentId, Area, MessageId};

use super::signature::HEADER;

/// A message on its way to an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpAttempt {
    pub url: String,
    /// The host and port that a person allowed for this agent.
    pub allowed: Option<AllowedHost>,
    pub agent: AgentId,
    pub message: MessageId,
    pub body: Vec<u8>,
    /// How often it was tried, with this time.
    pub attempt: u32,
    pub signature: Option<String>,
}

/// What an endpoint answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// A post under way; its error is why nothing was answered.
pub type Carrying<'c> = Pin<Box<dyn Future<Output = Result<HttpAnswer, String>> + Send + 'c>>;

/// Carries messages to endpoints.
pub trait EndpointClient: Send + Sync + Debug + 'static {
    fn post(&self, posting: HttpAttempt) -> Carrying<'_>;
}

/// Where messages may be posted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EgressPolicy {
    pub area: Area,
    /// Hosts that the project's owner allows, in private networks too.
    pub allow: Vec<AllowedHost>,
}

impl EgressPolicy {
    pub fn anywhere() -> EgressPolicy {
        EgressPolicy { area: Area::Anywhere, allow: vec![] }
    }

    /// How far from the open network the addresses of a URL may be, or why nothing is posted to it.
    fn judge(&self, url: &Url, granted: Option<&AllowedHost>) -> Result<Area, &'static str> {
        let host = url.host_str().ok_or("it names no host")?;
        let target = AllowedHost::new(host, url.port_or_known_default());
        let allowed = self.allow.iter().chain(granted).any(|rule| rule.covers(&target));
        match target.host().parse::<IpAddr>() {
            // A rule with an address means exactly that address.
            Ok(_) if allowed => Ok(Area::Anywhere),
            Ok(address) => refuses(self.area, address).map_or(Ok(self.area), Err),
            Err(_) if allowed => Ok(self.area.max(Area::Nearby)),
            Err(_) => Ok(self.area),
        }
    }
}

/// Why nothing is posted to an address.
fn refuses(area: Area, address: IpAddr) -> Option<&'static str> {
    match Area::of(address) {
        found if found <= area => None,
        Area::Nearby => Some(NEARBY),
        _ => Some("its address is not one that messages are posted to"),
    }
}

const NEARBY: &str = "its address is on this machine or in a private network: \
                      name the host under [outbound] allow in rookery.toml, or register it with 'rookery agents add'";

/// Posts over HTTP. Redirects are not followed: a server that can set one could send messages anywhere.
#[derive(Debug)]
pub struct Http {
    /// For hosts that nobody allowed.
    client: Client,
    /// For hosts that the owner allowed, whose names may stand for private addresses.
    allowed: Client,
    reach: EgressPolicy,
}

impl Http {
    pub fn new(reach: EgressPolicy, time: Duration) -> Result<Http, String> {
        // Another part of the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = |area| {
            Client::builder()
                .redirect(redirect::Policy::none())
                .no_proxy()
                .timeout(time)
                .dns_resolver(Arc::new(Addresses(area)))
                .user_agent(concat!("rookery/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| told(&error))
        };
        Ok(Http { client: client(reach.area)?, allowed: client(reach.area.max(Area::Nearby))?, reach })
    }

    /// Sends JSON; an error is why nothing was answered.
    pub(crate) async fn send(
        &self,
        url: &str,
        granted: Option<&AllowedHost>,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, String> {
        let url = Url::parse(url).map_err(|error| format!("the address cannot be read: {error}"))?;
        let area = self.reach.judge(&url, granted)?;
        let client = if area > self.reach.area { &self.allowed } else { &self.client };
        let mut request = client.post(url).header("content-type", "application/json").body(body);
        for (name, value) in headers {
            // Ids need not be ASCII; none of them has what a header cannot carry.
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.map_err(|error| told(&error))?;
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        Ok(HttpAnswer { status: response.status().as_u16(), retry_after })
    }
}

impl EndpointClient for Http {
    fn post(&self, posting: HttpAttempt) -> Carrying<'_> {
        Box::pin(async move {
            let HttpAttempt { url, allowed, agent, message, body, attempt, signature } = posting;
            let mut headers = vec![
                ("x-rookery-attempt", attempt.to_string()),
                ("x-rookery-message", message.to_string()),
                ("x-rookery-recipient", agent.to_string()),
            ];
            headers.extend(signature.map(|signature| (HEADER, signature)));
            self.send(&url, allowed.as_ref(), headers, body).await
        })
    }
}

/// Why a request failed, without the address, and with what led to it.
fn told(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    let mut source: Option<&dyn std::error::Error> = std::error::Error::source(error);
    let mut last = "it cannot be reached".to_owned();
    while let Some(cause) = source {
        last = cause.to_string();
        source = cause.source();
    }
    last
}

/// Resolves names for connections, and drops the addresses that are too far from the open network.
struct Addresses(Area);

impl Resolve for Addresses {
    fn resolve(&self, name: Name) -> Resolving {
        let area = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let refused = |address: &SocketAddr| refuses(area, address.ip());
            let served: Vec<SocketAddr> = found.iter().copied().filter(|address| refused(address).is_none()).collect();
            match (served.is_empty(), found.first().and_then(refused)) {
                (true, Some(why)) => Err(std::io::Error::other(why).into()),
                _ => Ok(Box::new(served.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(area: Area, allow: &[&str]) -> EgressPolicy {
        EgressPolicy { area, allow: allow.iter().map(|host| host.parse().unwrap()).collect() }
    }

    fn refused(reach: &EgressPolicy, url: &str) -> bool {
        reach.judge(&Url::parse(url).unwrap(), None).is_err()
    }

    #[test]
    fn what_somebody_names_leads_into_no_private_network() {
        let (local, shared) = (reach(Area::Nearby, &[]), reach(Area::Public, &[]));
        for nearby in [
            "127.0.0.1",
            "10.0.0.7",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "198.18.0.1",
            "192.0.0.8",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:10.0.0.1]",
            "[fc00::1]",
            "[fd00:ec2::254]",
            "[fec0::1]",
            "[64:ff9b::a00:1]",
            "[2002:7f00:1::]",
            "[2001::1]",
            "[::127.0.0.1]",
            "2130706433",
            "0x7f.1",
        ] {
            let url = format!("http://{nearby}:1/x");
            assert_eq!((refused(&local, &url), refused(&shared, &url)), (false, true), "{url}");
            assert!(!refused(&EgressPolicy::anywhere(), &url), "{url}");
        }
        for never in [
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "[fe80::1]",
            "[ff02::1]",
            "[::]",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:a9fe:a9fe::]",
        ] {
            let url = format!("http://{never}/latest");
            assert!(refused(&local, &url) && refused(&shared, &url), "{url}");
            assert!(!refused(&EgressPolicy::anywhere(), &url), "{url}");
        }
        for public in ["93.184.216.34", "172.32.0.1", "100.128.0.1", "[2606:4700::1]", "agents.example", "ken:8080"] {
            assert!(!refused(&shared, &format!("http://{public}/")), "{public}");
        }
    }

    #[test]
    fn allowed_host_may_be_in_a_private_network() {
        let listed = reach(Area::Public, &["ken:8080", "10.0.0.7", "169.254.1.1", "[::1]:9"]);
        let judge = |url: &str| listed.judge(&Url::parse(url).unwrap(), None).ok();
        for (url, area) in [
            ("http://KEN:8080/", Some(Area::Nearby)),
            ("http://ken/", Some(Area::Public)),
            ("http://ada/", Some(Area::Public)),
            ("http://10.0.0.7/", Some(Area::Anywhere)),
            ("http://10.0.0.7:99/", Some(Area::Anywhere)),
            ("http://169.254.1.1/", Some(Area::Anywhere)),
            ("http://[::1]:9/", Some(Area::Anywhere)),
            ("http://[::1]:10/", None),
            ("http://127.0.0.1/", None),
            ("http://10.0.0.8/", None),
        ] {
            assert_eq!(judge(url), area, "{url}");
        }
    }

    #[test]
    fn endpoint_that_a_person_allowed_is_that_host_and_port() {
        let shared = reach(Area::Public, &[]);
        let granted = "127.0.0.1:9".parse().unwrap();
        let judge = |url: &str| shared.judge(&Url::parse(url).unwrap(), Some(&granted)).is_ok();
        assert!(judge("http://127.0.0.1:9/in"));
        assert!(!judge("http://127.0.0.1:10/in") && !judge("http://127.0.0.2:9/in"));
    }

    #[tokio::test]
    async fn a_name_stands_for_no_address_that_is_not_served() {
        let resolve = |area| Addresses(area).resolve("localhost".parse().unwrap());
        assert!(resolve(Area::Nearby).await.unwrap().next().is_some());
        assert!(resolve(Area::Public).await.is_err());
    }
}

//! How a message gets to an endpoint: one POST, and what was answered.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderValue;
use reqwest::{Client, Url, redirect};
use rookery_core::{AgentId, Area, MessageId};

use super::signature::HEADER;

/// A message on its way to an endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Posting {
    pub url: String,
    pub agent: AgentId,
    pub message: MessageId,
    pub body: Vec<u8>,
    /// How often it was tried, with this time.
    pub attempt: u32,
    pub signature: Option<String>,
}

/// What an endpoint answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    pub status: u16,
    /// How long it wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// A post under way; its error is why nothing was answered.
pub type Carrying<'c> = Pin<Box<dyn Future<Output = Result<Answered, String>> + Send + 'c>>;

/// Carries messages to endpoints.
pub trait Carrier: Send + Sync + Debug + 'static {
    fn post(&self, posting: Posting) -> Carrying<'_>;
}

/// Where messages may go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    pub area: Area,
    /// Only these hosts, if there are any; in private networks too, because the project's owner named them.
    pub hosts: Vec<String>,
}

impl Reach {
    pub fn anywhere() -> Reach {
        Reach { area: Area::Anywhere, hosts: vec![] }
    }

    fn names(&self, host: &str) -> bool {
        self.hosts.iter().any(|named| named.eq_ignore_ascii_case(host))
    }

    /// Why nothing is sent to an address that a host's name stands for.
    fn refuses_address(&self, host: &str, address: IpAddr) -> Option<&'static str> {
        let allowed = if self.names(host) { self.area.max(Area::Nearby) } else { self.area };
        match Area::of(address) {
            found if found <= allowed => None,
            Area::Nearby => {
                Some("its address is on this machine or in a private network: name the host in delivery_hosts")
            }
            _ => Some("its address is not one that messages are sent to"),
        }
    }

    /// Why nothing is sent to a host.
    fn refuses_host(&self, url: &Url) -> Option<String> {
        let host = url.host_str()?;
        if !self.hosts.is_empty() && !self.names(host) {
            return Some(format!("'{host}' is not among the hosts that messages are sent to (delivery_hosts)"));
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?;
        // Whoever writes down an address means that one.
        let refused = self.refuses_address(host, literal).filter(|_| !self.names(host));
        refused.map(str::to_owned)
    }
}

/// Over HTTP. Redirects are not followed: whoever can set one could send messages anywhere.
#[derive(Debug)]
pub struct Http {
    client: Client,
    reach: Arc<Reach>,
}

impl Http {
    pub fn new(reach: Reach, time: Duration) -> Result<Http, String> {
        // Another part of the process may have chosen one before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let reach = Arc::new(reach);
        let client = Client::builder()
            .redirect(redirect::Policy::none())
            .no_proxy()
            .timeout(time)
            .dns_resolver(Arc::new(Addresses(reach.clone())))
            .user_agent(concat!("rookery/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| told(&error))?;
        Ok(Http { client, reach })
    }

    /// Sends JSON; an error is why nothing was answered.
    pub(crate) async fn send(
        &self,
        url: &str,
        headers: Vec<(&'static str, String)>,
        body: Vec<u8>,
    ) -> Result<Answered, String> {
        let url = Url::parse(url).map_err(|error| format!("the address cannot be read: {error}"))?;
        if let Some(why) = self.reach.refuses_host(&url) {
            return Err(why);
        }
        let mut request = self.client.post(url).header("content-type", "application/json").body(body);
        for (name, value) in headers {
            // Ids need not be ASCII; none of them has what a header cannot carry.
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                request = request.header(name, value);
            }
        }
        let response = request.send().await.map_err(|error| told(&error))?;
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        Ok(Answered { status: response.status().as_u16(), retry_after })
    }
}

impl Carrier for Http {
    fn post(&self, posting: Posting) -> Carrying<'_> {
        Box::pin(async move {
            let Posting { url, agent, message, body, attempt, signature } = posting;
            let mut headers = vec![
                ("x-rookery-attempt", attempt.to_string()),
                ("x-rookery-message", message.to_string()),
                ("x-rookery-recipient", agent.to_string()),
            ];
            headers.extend(signature.map(|signature| (HEADER, signature)));
            self.send(&url, headers, body).await
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

/// Names are resolved here, so that a name stands for no address that is not served.
struct Addresses(Arc<Reach>);

impl Resolve for Addresses {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let refused = |address: &SocketAddr| reach.refuses_address(name.as_str(), address.ip());
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

    fn reach(area: Area, hosts: &[&str]) -> Reach {
        Reach { area, hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }
    }

    fn refused(reach: &Reach, url: &str) -> bool {
        reach.refuses_host(&Url::parse(url).unwrap()).is_some()
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
            assert!(!refused(&Reach::anywhere(), &url), "{url}");
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
            assert!(!refused(&Reach::anywhere(), &url), "{url}");
        }
        for public in ["93.184.216.34", "172.32.0.1", "100.128.0.1", "[2606:4700::1]", "agents.example", "ken:8080"] {
            assert!(!refused(&shared, &format!("http://{public}/")), "{public}");
        }
    }

    #[test]
    fn the_owner_names_hosts_and_no_others_are_served() {
        let listed = reach(Area::Public, &["ken", "10.0.0.7", "169.254.1.1", "[::1]"]);
        for url in ["http://KEN/", "http://10.0.0.7/", "http://169.254.1.1/", "http://[::1]:9/"] {
            assert!(!refused(&listed, url), "{url}");
        }
        for url in ["http://ada/", "http://127.0.0.1/", "http://10.0.0.8/"] {
            assert!(refused(&listed, url), "{url}");
        }
        // A name may stand for a private address, and for nothing where secrets are.
        let refuses = |host: &str, address: &str| listed.refuses_address(host, address.parse().unwrap()).is_some();
        assert!(!refuses("ken", "192.168.0.5") && !refuses("ken", "127.0.0.1"));
        assert!(refuses("ken", "169.254.169.254") && refuses("ada", "192.168.0.5"));
    }

    #[tokio::test]
    async fn a_name_stands_for_no_address_that_is_not_served() {
        let resolve =
            |area, hosts: &[&str]| Addresses(Arc::new(reach(area, hosts))).resolve("localhost".parse().unwrap());
        assert!(resolve(Area::Nearby, &[]).await.unwrap().next().is_some());
        assert!(resolve(Area::Public, &["localhost"]).await.unwrap().next().is_some());
        assert!(resolve(Area::Public, &[]).await.is_err());
    }
}

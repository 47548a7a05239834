//! How a message gets to an endpoint: one POST, and what was answered.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderValue;
use reqwest::{Client, Url, redirect};
use rookery_core::{AgentId, MessageId};

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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// Whether endpoints on this machine are served: where everybody who calls is trusted anyway.
    pub this_machine: bool,
    /// Only these hosts, if there are any.
    pub hosts: Vec<String>,
}

impl Reach {
    /// Why nothing is sent to an address. Link-local addresses are where clouds keep their secrets.
    fn refuses(&self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        let link_local = match address {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        if link_local || address.is_multicast() || address.is_unspecified() {
            return Some("its address is not one that messages are sent to");
        }
        (address.is_loopback() && !self.this_machine).then_some("endpoints on this machine are not served here")
    }

    /// Why nothing is sent to a host.
    fn refuses_host(&self, url: &Url) -> Option<String> {
        let host = url.host_str()?;
        if !self.hosts.is_empty() && !self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
            return Some(format!("'{host}' is not among the hosts that messages are sent to (delivery_hosts)"));
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok()?;
        self.refuses(literal).map(str::to_owned)
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
}

impl Carrier for Http {
    fn post(&self, posting: Posting) -> Carrying<'_> {
        Box::pin(async move {
            let url = Url::parse(&posting.url).map_err(|error| format!("the address cannot be read: {error}"))?;
            if let Some(why) = self.reach.refuses_host(&url) {
                return Err(why);
            }
            let mut request = self
                .client
                .post(url)
                .header("content-type", "application/json")
                .header("x-rookery-attempt", posting.attempt)
                .body(posting.body);
            for (name, value) in
                [("x-rookery-message", posting.message.as_str()), ("x-rookery-recipient", posting.agent.as_str())]
            {
                // Ids need not be ASCII; none of them has what a header cannot carry.
                if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                    request = request.header(name, value);
                }
            }
            if let Some(signature) = posting.signature {
                request = request.header(HEADER, signature);
            }
            let response = request.send().await.map_err(|error| told(&error))?;
            let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
            let retry_after = retry_after.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            Ok(Answered { status: response.status().as_u16(), retry_after })
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
            let served: Vec<SocketAddr> =
                found.iter().copied().filter(|address| reach.refuses(address.ip()).is_none()).collect();
            match (served.is_empty(), found.first().and_then(|first| reach.refuses(first.ip()))) {
                (true, Some(why)) => Err(std::io::Error::other(why).into()),
                _ => Ok(Box::new(served.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_where_they_may_and_nowhere_else() {
        let local = Reach { this_machine: true, hosts: vec![] };
        let shared = Reach { this_machine: false, hosts: vec![] };
        let listed = Reach { this_machine: true, hosts: vec!["ken".to_owned(), "10.0.0.7".to_owned()] };
        let refused = |reach: &Reach, url: &str| reach.refuses_host(&Url::parse(url).unwrap()).is_some();
        for url in ["http://127.0.0.1:1/x", "http://[::1]/", "http://[::ffff:127.0.0.1]/"] {
            assert_eq!((refused(&local, url), refused(&shared, url)), (false, true), "{url}");
        }
        for url in ["http://169.254.169.254/latest", "http://[fe80::1]/", "http://0.0.0.0/", "http://224.0.0.1/"] {
            assert!(refused(&local, url), "{url}");
        }
        for url in ["http://10.0.0.7/", "http://ken:8080/clutch", "https://agents.example/x"] {
            assert!(!refused(&shared, url), "{url}");
        }
        assert!(!refused(&listed, "http://KEN/") && !refused(&listed, "http://10.0.0.7/"));
        assert!(refused(&listed, "http://ada/") && refused(&listed, "http://127.0.0.1/"));
    }

    #[tokio::test]
    async fn a_name_stands_for_no_address_that_is_not_served() {
        let resolve = |this_machine: bool| {
            let reach = Arc::new(Reach { this_machine, hosts: vec![] });
            Addresses(reach).resolve("localhost".parse().unwrap())
        };
        assert!(resolve(true).await.unwrap().next().is_some());
        assert!(resolve(false).await.is_err());
    }
}

//! The beginning of a request to a proxy: what it is for, and how it goes on to where it is for.

use tokio::io::{AsyncRead, AsyncReadExt};

use super::rule::Target;

/// More than this is no beginning of a request.
const HEAD_BYTES: usize = 64 << 10;

/// What a client of the proxy asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub target: Target,
    pub kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A way to the target, for bytes that only the two ends understand; those that came with it go first.
    Tunnel { early: Vec<u8> },
    /// One plain request; this is how it begins when the target itself is asked, with what came of the rest.
    Plain { begins: Vec<u8> },
}

/// Reads the beginning; `None` if it is no request to a proxy.
pub(super) async fn read(client: &mut (impl AsyncRead + Unpin)) -> Option<Request> {
    let (head, rest) = read_head(client).await?;
    parse(&head, rest)
}

/// Everything up to the first empty line, and what came after it.
pub(super) async fn read_head(from: &mut (impl AsyncRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            read.truncate(end);
            return Some((String::from_utf8(read).ok()?, rest));
        }
        read.reserve(4 << 10);
        if read.len() > HEAD_BYTES || from.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

fn parse(head: &str, rest: Vec<u8>) -> Option<Request> {
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let mut words = first.split(' ');
    let (method, address, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") || has_other_ends(head) {
        return None;
    }
    if method == "CONNECT" {
        return Some(Request { target: Target::parse(address, None)?, kind: Kind::Tunnel { early: rest } });
    }
    let after = address.strip_prefix("http://")?;
    let (authority, path) = after.find(['/', '?']).map_or((after, ""), |at| after.split_at(at));
    let target = Target::parse(authority, Some(80))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut begins = format!("{method} {slash}{path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n");
    // Whoever is asked is said by the address alone, and what is between the client and us is not passed on.
    for header in headers.split("\r\n").filter(|header| !is_ours(header)) {
        begins.push_str(header);
        begins.push_str("\r\n");
    }
    begins.push_str("\r\n");
    let mut begins = begins.into_bytes();
    begins.extend(rest);
    Some(Request { target, kind: Kind::Plain { begins } })
}

/// What some would read as the end of a line, and others not.
fn has_other_ends(head: &str) -> bool {
    head.split("\r\n").any(|line| line.contains(['\r', '\n', '\0']))
}

fn is_ours(header: &str) -> bool {
    let name = header.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
    name.is_empty() || name.starts_with("proxy-") || matches!(name.as_str(), "host" | "connection" | "keep-alive")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn request(text: &str) -> Option<Request> {
        read(&mut text.as_bytes()).await
    }

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
    }

    #[tokio::test]
    async fn a_tunnel_keeps_what_came_early() {
        let asked = request("CONNECT api.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\nearly").await.unwrap();
        assert_eq!(
            asked,
            Request { target: target("api.example.com:443"), kind: Kind::Tunnel { early: b"early".to_vec() } }
        );
    }

    #[tokio::test]
    async fn a_plain_request_is_for_the_host_of_its_address() {
        let text = "POST http://a.example:81?q=1 HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: Basic x\r\n\
                    Connection: keep-alive\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nhi";
        let asked = request(text).await.unwrap();
        assert_eq!(asked.target, target("a.example:81"));
        let Kind::Plain { begins } = asked.kind else { panic!("{:?}", asked.kind) };
        let wanted =
            "POST /?q=1 HTTP/1.1\r\nhost: a.example:81\r\nconnection: close\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(String::from_utf8(begins).unwrap(), wanted);
        assert_eq!(request("GET http://a.example/p HTTP/1.0\r\n\r\n").await.unwrap().target, target("a.example:80"));
    }

    #[tokio::test]
    async fn anything_else_is_no_request_to_a_proxy() {
        for bad in [
            "",
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "CONNECT a.example HTTP/1.1\r\n\r\n",
            "CONNECT a.example:443 HTTP/2\r\n\r\n",
            "CONNECT a.example:443\r\n\r\n",
            "CONNECT a b:443 HTTP/1.1\r\n\r\n",
            "GET http://user@a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nX: y\nHost: b.example\r\n\r\n",
            "\u{16}\u{3}\u{1}",
            "CONNECT a.example:443 HTTP/1.1\r\n",
        ] {
            assert_eq!(request(bad).await, None, "{bad:?}");
        }
        let endless = format!("GET http://a.example/{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES * 2));
        assert_eq!(request(&endless).await, None);
    }
}

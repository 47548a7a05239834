//! Parses the head of a request to the sandbox's proxy, and builds the head that is forwarded.
//!
//! A head that two programs could read differently is rejected, never repaired.

use httparse::{EMPTY_HEADER, Header, Status};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::rule::NetworkTarget;

/// Longer heads are rejected.
const HEAD_BYTES: usize = 64 << 10;
const HEADERS: usize = 128;

/// A request to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub target: NetworkTarget,
    pub kind: ProxyRequestKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProxyRequestKind {
    /// CONNECT: a tunnel to the target, with the bytes that came after the head.
    Tunnel { early: Vec<u8> },
    /// A plain request: the bytes to send to the target first.
    Plain { begins: Vec<u8> },
}

/// Reads a request; `None` if it is not a valid one for a proxy.
pub(super) async fn read(client: &mut (impl AsyncRead + Unpin)) -> Option<ProxyRequest> {
    let (head, rest) = read_head(client).await?;
    let (target, forwarded) = parse_head(&head)?;
    let kind = match forwarded {
        None => ProxyRequestKind::Tunnel { early: rest },
        Some(mut begins) => {
            begins.extend(rest);
            ProxyRequestKind::Plain { begins }
        }
    };
    Some(ProxyRequest { target, kind })
}

/// Reads up to and including the first empty line. Also returns the bytes that came after it.
pub(super) async fn read_head(from: &mut (impl AsyncRead + Unpin)) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Some((read, rest));
        }
        read.reserve(4 << 10);
        if read.len() > HEAD_BYTES || from.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}

/// The target of a head and, for a plain request, the head to forward.
pub(super) fn parse_head(head: &[u8]) -> Option<(NetworkTarget, Option<Vec<u8>>)> {
    if head.len() > HEAD_BYTES || !has_plain_lines(head) {
        return None;
    }
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(head) != Ok(Status::Complete(head.len())) {
        return None;
    }
    let (method, address) = (request.method?, request.path?);
    let framing = BodyFraming::of(request.headers, request.version?)?;
    let host = single(request.headers, "host")?;
    if method.eq_ignore_ascii_case("CONNECT") {
        let target = NetworkTarget::parse(address, None)?;
        let named = host.is_none_or(|host| is_for(host, &target, target.port));
        return (method == "CONNECT" && named && framing == BodyFraming::NoBody).then_some((target, None));
    }
    let (target, path) = absolute(address)?;
    if !host.is_none_or(|host| is_for(host, &target, 80)) {
        return None;
    }
    Some((target.clone(), Some(forwarded_head(method, &target, path, request.headers))))
}

/// Whether all lines end with CR LF and contain no other control bytes.
fn has_plain_lines(head: &[u8]) -> bool {
    let starts = head.first().is_some_and(|byte| !byte.is_ascii_whitespace());
    let Some(lines) = head.strip_suffix(b"\r\n\r\n") else { return false };
    let mut ends = lines.iter().enumerate().filter(|(_, byte)| byte.is_ascii_control() && **byte != b'\t');
    let paired = ends.all(|(at, byte)| match byte {
        b'\r' => lines.get(at + 1) == Some(&b'\n'),
        b'\n' => at > 0 && lines[at - 1] == b'\r',
        _ => false,
    });
    starts && paired
}

/// Splits `http://host:port/path` into the target and the path.
fn absolute(address: &str) -> Option<(NetworkTarget, &str)> {
    let scheme = address.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    let after = &address[scheme.len()..];
    if after.contains('#') || !after.is_ascii() {
        return None;
    }
    let (authority, path) = after.find(['/', '?']).map_or((after, ""), |at| after.split_at(at));
    Some((NetworkTarget::parse(authority, Some(80))?, path))
}

/// Whether a Host header names the target.
fn is_for(host: &[u8], target: &NetworkTarget, usual: u16) -> bool {
    let named = std::str::from_utf8(host).ok().and_then(|host| NetworkTarget::parse(host, Some(usual)));
    named.as_ref() == Some(target)
}

/// The way in which the length of a body is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BodyFraming {
    NoBody,
    Length,
    Chunked,
}

impl BodyFraming {
    /// `None` if two programs could see different lengths.
    fn of(headers: &[Header<'_>], version: u8) -> Option<BodyFraming> {
        match (single(headers, "content-length")?, single(headers, "transfer-encoding")?) {
            (None, None) => Some(BodyFraming::NoBody),
            (Some(length), None) => {
                let digits = !length.is_empty() && length.len() < 19 && length.iter().all(u8::is_ascii_digit);
                digits.then_some(BodyFraming::Length)
            }
            (None, Some(coding)) => {
                (version == 1 && coding.eq_ignore_ascii_case(b"chunked")).then_some(BodyFraming::Chunked)
            }
            (Some(_), Some(_)) => None,
        }
    }
}

/// The value of a header, if any; `None` if it was sent twice.
fn single<'h>(headers: &[Header<'h>], name: &str) -> Option<Option<&'h [u8]>> {
    let mut values = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value);
    let first = values.next();
    values.next().is_none().then_some(first)
}

/// Builds the head for the target: it names the target as its host, and leaves out headers meant for the proxy.
fn forwarded_head(method: &str, target: &NetworkTarget, path: &str, headers: &[Header<'_>]) -> Vec<u8> {
    let slash = if path.starts_with('/') { "" } else { "/" };
    let host = if target.port == 80 { target.host_in_url() } else { target.to_string() };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n").into_bytes();
    let hops = hop_by_hop(headers);
    for header in headers.iter().filter(|header| !hops.contains(&header.name.to_ascii_lowercase())) {
        head.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    head
}

/// Names of headers that are not forwarded.
fn hop_by_hop(headers: &[Header<'_>]) -> Vec<String> {
    let known = ["host", "connection", "keep-alive", "upgrade", "te"].into_iter().map(str::to_owned);
    let proxy = headers.iter().map(|header| header.name.to_ascii_lowercase()).filter(|name| name.starts_with("proxy-"));
    let connection = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
    let named = connection.flat_map(|header| header.value.split(|byte| *byte == b','));
    let named = named.map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase());
    // The framing headers describe the body and are forwarded even if `Connection` names them.
    let framing = |name: &String| name == "content-length" || name == "transfer-encoding";
    known.chain(proxy).chain(named.filter(|name| !framing(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn request(text: &str) -> Option<ProxyRequest> {
        read(&mut text.as_bytes()).await
    }

    fn target(text: &str) -> NetworkTarget {
        NetworkTarget::parse(text, None).unwrap()
    }

    #[tokio::test]
    async fn tunnel_keeps_early_bytes() {
        let text = "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\nearly";
        let read = request(text).await.unwrap();
        let kind = ProxyRequestKind::Tunnel { early: b"early".to_vec() };
        assert_eq!(read, ProxyRequest { target: target("api.example.com:443"), kind });
        assert!(request("CONNECT api.example.com:443 HTTP/1.0\r\nHost: API.example.com\r\n\r\n").await.is_some());
    }

    #[tokio::test]
    async fn plain_request_goes_to_the_host_of_its_address() {
        let text = "POST http://a.example:81?q=1 HTTP/1.1\r\nHost: a.example:81\r\nProxy-Authorization: Basic x\r\n\
                    Connection: keep-alive, X-Odd\r\nX-Odd: 1\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nhi";
        let read = request(text).await.unwrap();
        assert_eq!(read.target, target("a.example:81"));
        let ProxyRequestKind::Plain { begins } = read.kind else { panic!("{:?}", read.kind) };
        let wanted =
            "POST /?q=1 HTTP/1.1\r\nhost: a.example:81\r\nconnection: close\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(String::from_utf8(begins).unwrap(), wanted);
        assert_eq!(request("GET http://a.example/p HTTP/1.0\r\n\r\n").await.unwrap().target, target("a.example:80"));
    }

    #[tokio::test]
    async fn request_not_meant_for_a_proxy_is_rejected() {
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

    #[test]
    fn ambiguous_heads_are_rejected() {
        for bad in [
            "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n",
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example:81\r\n",
            "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n",
            "GET http://a.example/ HTTP/1.1\r\nHost : a.example\r\n",
            "GET http://a.example/ HTTP/1.1\r\nX: y\r\n z\r\n",
            "GET http://a.example/ HTTP/1.1\r\nX: y\r\n\tz\r\n",
            "GET http://a.example/ HTTP/1.1\r\nX: a\0b\r\n",
            "GET http://a.example/ HTTP/1.1\r\nX: a\rb\r\n",
            "GET http://a.example/ HTTP/1.1\nX: y\r\n",
            "GET http://a.example/#@b.example/ HTTP/1.1\r\n",
            "GET http://a.example\\@b.example/ HTTP/1.1\r\n",
            "GET http://a.example%2eb/ HTTP/1.1\r\n",
            "GET http://[fe80::1%25eth0]/ HTTP/1.1\r\n",
            "GET http://[::1/ HTTP/1.1\r\n",
            "\r\nGET http://a.example/ HTTP/1.1\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1, 1\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: +1\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n",
            "POST http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
            "CONNECT a.example:443/x HTTP/1.1\r\n",
            "CONNECT http://a.example:443 HTTP/1.1\r\n",
            "CONNECT me@a.example:443 HTTP/1.1\r\n",
            "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n",
            "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:444\r\n",
            "CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 5\r\n",
            "connect a.example:443 HTTP/1.1\r\n",
        ] {
            assert_eq!(parse_head(format!("{bad}\r\n").as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn address_in_an_unusual_form_is_normalised() {
        for (written, host) in [
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::ffff:127.0.0.1]", "127.0.0.1"),
            ("[0:0:0:0:0:0:0:1]", "::1"),
        ] {
            let head = format!("CONNECT {written}:443 HTTP/1.1\r\n\r\n");
            assert_eq!(parse_head(head.as_bytes()).unwrap().0.host, host, "{written}");
        }
        for bad in ["256.1.1.1", "1.2.3.4.5", "0x100000000", "08.1.1.1", "1.2.3.0xg", "4294967296"] {
            let head = format!("CONNECT {bad}:443 HTTP/1.1\r\n\r\n");
            let named = parse_head(head.as_bytes()).map(|(target, _)| target.host);
            assert!(named.is_none() || bad == "1.2.3.0xg", "{bad}: {named:?}");
        }
    }
}

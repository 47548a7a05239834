//! The head of a request to the sandbox's proxy: its target, and the head that the target is sent.
//!
//! A head that two programs could read differently is rejected: nothing is repaired.

use httparse::{EMPTY_HEADER, Header, Status};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::rule::Target;

/// Longer heads are rejected.
const HEAD_BYTES: usize = 64 << 10;
const HEADERS: usize = 128;

/// A request to the proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub target: Target,
    pub kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// CONNECT: a tunnel to the target, and the bytes that came with the request.
    Tunnel { early: Vec<u8> },
    /// A plain request: the bytes to send to the target first.
    Plain { begins: Vec<u8> },
}

/// Reads a head; `None` if it is not one for a proxy.
pub(super) async fn read(client: &mut (impl AsyncRead + Unpin)) -> Option<ProxyRequest> {
    let (head, rest) = read_head(client).await?;
    let (target, forwarded) = parse_head(&head)?;
    let kind = match forwarded {
        None => Kind::Tunnel { early: rest },
        Some(mut begins) => {
            begins.extend(rest);
            Kind::Plain { begins }
        }
    };
    Some(ProxyRequest { target, kind })
}

/// Everything up to and with the first empty line, and the bytes after it.
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

/// The target of a head, and for a plain request the head that the target is sent.
pub(super) fn parse_head(head: &[u8]) -> Option<(Target, Option<Vec<u8>>)> {
    if head.len() > HEAD_BYTES || !has_plain_lines(head) {
        return None;
    }
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(head) != Ok(Status::Complete(head.len())) {
        return None;
    }
    let (method, address) = (request.method?, request.path?);
    let framing = Framing::of(request.headers, request.version?)?;
    let host = single(request.headers, "host")?;
    if method.eq_ignore_ascii_case("CONNECT") {
        let target = Target::parse(address, None)?;
        let named = host.is_none_or(|host| is_for(host, &target, target.port));
        return (method == "CONNECT" && named && framing == Framing::NoBody).then_some((target, None));
    }
    let (target, path) = absolute(address)?;
    if !host.is_none_or(|host| is_for(host, &target, 80)) {
        return None;
    }
    Some((target.clone(), Some(forwarded(method, &target, path, request.headers))))
}

/// Whether lines end with CR LF and nothing else, and no other control byte is in them.
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

/// The target and the path of `http://host:port/path`.
fn absolute(address: &str) -> Option<(Target, &str)> {
    let scheme = address.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    let after = &address[scheme.len()..];
    if after.contains('#') || !after.is_ascii() {
        return None;
    }
    let (authority, path) = after.find(['/', '?']).map_or((after, ""), |at| after.split_at(at));
    Some((Target::parse(authority, Some(80))?, path))
}

/// Whether a Host header names the target.
fn is_for(host: &[u8], target: &Target, usual: u16) -> bool {
    let named = std::str::from_utf8(host).ok().and_then(|host| Target::parse(host, Some(usual)));
    named.as_ref() == Some(target)
}

/// How the length of a body is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Framing {
    NoBody,
    Length,
    Chunked,
}

impl Framing {
    /// `None` if two programs could see different lengths.
    fn of(headers: &[Header<'_>], version: u8) -> Option<Framing> {
        match (single(headers, "content-length")?, single(headers, "transfer-encoding")?) {
            (None, None) => Some(Framing::NoBody),
            (Some(length), None) => {
                let digits = !length.is_empty() && length.len() < 19 && length.iter().all(u8::is_ascii_digit);
                digits.then_some(Framing::Length)
            }
            (None, Some(coding)) => {
                (version == 1 && coding.eq_ignore_ascii_case(b"chunked")).then_some(Framing::Chunked)
            }
            (Some(_), Some(_)) => None,
        }
    }
}

/// The one value of a header; `None` if it was sent twice.
fn single<'h>(headers: &[Header<'h>], name: &str) -> Option<Option<&'h [u8]>> {
    let mut values = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value);
    let first = values.next();
    values.next().is_none().then_some(first)
}

/// The head for the target: it names the target as its host, and leaves out what is between the client and the proxy.
fn forwarded(method: &str, target: &Target, path: &str, headers: &[Header<'_>]) -> Vec<u8> {
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

/// The names of headers that are not passed on.
fn hop_by_hop(headers: &[Header<'_>]) -> Vec<String> {
    let known = ["host", "connection", "keep-alive", "upgrade", "te"].into_iter().map(str::to_owned);
    let proxy = headers.iter().map(|header| header.name.to_ascii_lowercase()).filter(|name| name.starts_with("proxy-"));
    let connection = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
    let named = connection.flat_map(|header| header.value.split(|byte| *byte == b','));
    let named = named.map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase());
    // The length of the body is not between neighbours, whatever somebody names.
    let framing = |name: &String| name == "content-length" || name == "transfer-encoding";
    known.chain(proxy).chain(named.filter(|name| !framing(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn request(text: &str) -> Option<ProxyRequest> {
        read(&mut text.as_bytes()).await
    }

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap()
    }

    #[tokio::test]
    async fn a_tunnel_keeps_what_came_early() {
        let text = "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\nearly";
        let asked = request(text).await.unwrap();
        let kind = Kind::Tunnel { early: b"early".to_vec() };
        assert_eq!(asked, ProxyRequest { target: target("api.example.com:443"), kind });
        assert!(request("CONNECT api.example.com:443 HTTP/1.0\r\nHost: API.example.com\r\n\r\n").await.is_some());
    }

    #[tokio::test]
    async fn a_plain_request_is_for_the_host_of_its_address() {
        let text = "POST http://a.example:81?q=1 HTTP/1.1\r\nHost: a.example:81\r\nProxy-Authorization: Basic x\r\n\
                    Connection: keep-alive, X-Odd\r\nX-Odd: 1\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nhi";
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
    fn address_in_an_unusual_form_is_the_address_that_it_stands_for() {
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

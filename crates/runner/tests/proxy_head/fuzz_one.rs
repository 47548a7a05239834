//! The fuzz target for request heads of the sandbox's proxy. `cargo xtask fuzz proxy_head` runs it for any time, and a test runs
//! it over the corpus and mutations of it.

use rookery_runner::sandbox::proxy_head;

pub fn fuzz_one(data: &[u8]) {
    let Some((target, forwarded)) = proxy_head(data) else { return };
    let (host, port) = target.rsplit_once(':').expect("a target has a port");
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{target}");
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_:[]".contains(&byte);
    assert!(!host.is_empty() && host.bytes().all(known), "{target}");
    let again = proxy_head(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes());
    assert_eq!(again.map(|(target, _)| target), Some(target.clone()), "a target round-trips");
    if let Some(head) = forwarded {
        check_forwarded(&target, &head);
    }
}

/// A forwarded request has exactly one host, its target, and no ambiguous lines.
fn check_forwarded(target: &str, head: &[u8]) {
    let text = String::from_utf8_lossy(head);
    let lines = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line").split("\r\n");
    let lines: Vec<&str> = lines.collect();
    assert!(lines.iter().all(|line| !line.is_empty() && !line.contains(['\r', '\n', '\0'])), "{text:?}");
    assert!(lines[0].split(' ').count() == 3 && lines[0].split(' ').nth(1).is_some_and(|path| path.starts_with('/')));
    let values = |name: &str| {
        let headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
        headers.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect::<Vec<_>>()
    };
    let host = target.strip_suffix(":80").unwrap_or(target);
    assert_eq!(values("host"), [host], "{text:?}");
    assert_eq!(values("connection"), ["close"], "{text:?}");
    assert!(values("content-length").len() + values("transfer-encoding").len() <= 1, "{text:?}");
}

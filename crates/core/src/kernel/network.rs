//! What can be reached at an address: whoever connects to what somebody else names looks at this first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far from the open network an address is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Area {
    /// Where anybody may be: what names an address need not be trusted.
    Public,
    /// This machine and private networks too: where everybody who calls is trusted anyway.
    Nearby,
    /// Wherever the project's owner says. Link-local addresses are where clouds keep their secrets.
    Anywhere,
}

impl Area {
    /// Where an address is.
    pub fn of(address: IpAddr) -> Area {
        match address.to_canonical() {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => of_v6(v6),
        }
    }
}

fn of_v4(address: Ipv4Addr) -> Area {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        // This network, link-local, multicast, and what is reserved.
        (0, ..) | (169, 254, _) | (224.., ..) => Area::Anywhere,
        // This machine, private networks, those of carriers, of protocols and of benchmarks.
        (127 | 10, ..) | (172, 16..=31, _) | (192, 168, _) => Area::Nearby,
        (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _) => Area::Nearby,
        _ => Area::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> Area {
    let embedded = |high: u16, low: u16| of_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Area::Nearby,
        // Those that stand for an address of the older kind, whoever translates them.
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => embedded(high, low),
        // Where in it the other address stands is for the network to say.
        [0x64, 0xff9b, ..] => Area::Anywhere,
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0, ..] => Area::Nearby,
        [first, ..] if first & 0xffc0 == 0xfe80 || first & 0xff00 == 0xff00 => Area::Anywhere,
        [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Area::Nearby,
        _ => Area::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_where_it_leads_however_it_is_written() {
        for (address, area) in [
            ("93.184.216.34", Area::Public),
            ("2606:4700::1", Area::Public),
            ("127.0.0.1", Area::Nearby),
            ("::ffff:10.0.0.1", Area::Nearby),
            ("64:ff9b::a00:1", Area::Nearby),
            ("fd00:ec2::254", Area::Nearby),
            ("169.254.169.254", Area::Anywhere),
            ("2002:a9fe:a9fe::", Area::Anywhere),
            ("fe80::1", Area::Anywhere),
            ("0.0.0.0", Area::Anywhere),
        ] {
            assert_eq!(Area::of(address.parse().unwrap()), area, "{address}");
        }
    }
}

//! Grammars of IP addresses and CIDR blocks in fields: no leading zeros, no IPv4-mapped IPv6 addresses.

use super::Faults;
use std::net::IpAddr;

const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NOT_A_BLOCK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Faults of an IP address of either family.
pub fn ip(value: &str) -> Faults {
    match value.parse::<IpAddr>() {
        Ok(address) if is_mapped(address) => vec!["must not be an IPv4-mapped IPv6 address".to_owned()],
        Ok(_) => Faults::new(),
        Err(_) if sloppy(value).is_some() => vec!["must not have leading 0s".to_owned()],
        Err(_) => vec![NOT_AN_ADDRESS.to_owned()],
    }
}

/// Faults of an IP address in canonical form, as the standard library prints it.
pub fn canonical_ip(value: &str) -> Faults {
    match value.parse::<IpAddr>() {
        Ok(ip) if ip.to_string() == value => Faults::new(),
        Ok(ip) => vec![format!("must be in canonical form (\"{ip}\")")],
        Err(_) => vec!["must be a valid IP address".to_owned()],
    }
}

/// Faults of a CIDR block `address/bits`; bits beyond the prefix must be zero.
pub fn cidr(value: &str) -> Faults {
    let fault = |text: &str| vec![text.to_owned()];
    let Some((address, bits)) = value.split_once('/') else { return fault(NOT_A_BLOCK) };
    let Some(ip) = sloppy(address) else { return fault(NOT_A_BLOCK) };
    let digits = !bits.is_empty() && bits.len() <= 4 && bits.bytes().all(|b| b.is_ascii_digit());
    let Some(length) = bits.parse::<u32>().ok().filter(|n| digits && *n <= width(ip)) else {
        return fault(NOT_A_BLOCK);
    };
    if address.parse::<IpAddr>().is_err() || (bits.len() > 1 && bits.starts_with('0')) {
        fault("must not have leading 0s in IP or prefix length")
    } else if is_mapped(ip) {
        fault("must not have an IPv4-mapped IPv6 address")
    } else if has_bits_beyond(ip, length) {
        fault("must not have bits set beyond the prefix length")
    } else {
        Faults::new()
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some())
}

const fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn has_bits_beyond(address: IpAddr, length: u32) -> bool {
    match address {
        IpAddr::V4(four) => four.to_bits().checked_shl(length).unwrap_or(0) != 0,
        IpAddr::V6(six) => six.to_bits().checked_shl(length).unwrap_or(0) != 0,
    }
}

/// Parses an address like old parsers, which ignore leading zeros in IPv4 numbers.
fn sloppy(value: &str) -> Option<IpAddr> {
    let strict = value.parse().ok();
    strict.or_else(|| {
        let short = |part: &str| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0".to_owned(),
            rest => rest.to_owned(),
        };
        let parts: Vec<String> = value.split('.').take(5).map(short).collect();
        parts.join(".").parse().ok()
    })
}

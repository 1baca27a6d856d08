//! Parsing of IP addresses and CIDR blocks as strict as Kubernetes since 1.36: no leading zeros, no
//! IPv4-mapped IPv6, no bits beyond the prefix. Fields of newer kinds also demand the canonical form.
//!
//! Follows `IsValidIP` and `IsValidCIDR`.

use crate::field::{ErrorList, Path};
use crate::object::text;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

const NO_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const NO_BLOCK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// CIDR block of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    address: IpAddr,
    bits: u8,
}

/// Parses an IP address; the error is the message for clients.
pub(super) fn parse_ip(value: &str) -> Result<IpAddr, &'static str> {
    match value.parse() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => Err("must not be an IPv4-mapped IPv6 address"),
        Ok(ip) => Ok(ip),
        Err(_) if without_zeros(value).is_some() => Err("must not have leading 0s"),
        Err(_) => Err(NO_IP),
    }
}

/// The IPv4 address that a text with leading zeros stands for.
fn without_zeros(value: &str) -> Option<Ipv4Addr> {
    let octets: Option<Vec<u8>> = value
        .split('.')
        .map(|part| if part.bytes().all(|b| b.is_ascii_digit()) { part.parse().ok() } else { None })
        .collect();
    <[u8; 4]>::try_from(octets?).ok().map(Ipv4Addr::from)
}

/// Parses a CIDR block; the error is the message for clients.
pub(super) fn parse_block(value: &str) -> Result<Block, &'static str> {
    let (address, bits) = value.split_once('/').ok_or(NO_BLOCK)?;
    let zeros = "must not have leading 0s in IP or prefix length";
    let address = match parse_ip(address) {
        Ok(address) => address,
        Err("must not have leading 0s") => return Err(zeros),
        Err(NO_IP) => return Err(NO_BLOCK),
        Err(_) => return Err("must not have an IPv4-mapped IPv6 address"),
    };
    let number: u8 =
        bits.parse().ok().filter(|_| bits.bytes().all(|b| b.is_ascii_digit())).ok_or(NO_BLOCK)?;
    if number > Block::width(address) {
        return Err(NO_BLOCK);
    }
    if bits.len() > 1 && bits.starts_with('0') {
        return Err(zeros);
    }
    let block = Block { address, bits: number };
    if block.first() == address { Ok(block) } else { Err("must not have bits set beyond the prefix length") }
}

impl Block {
    fn width(address: IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether the block holds IPv4 addresses.
    pub(super) fn is_ipv4(self) -> bool {
        self.address.is_ipv4()
    }

    /// The first address: the prefix followed by zeros.
    fn first(self) -> IpAddr {
        match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        }
    }

    /// Whether another block is a proper subset of this one.
    pub(super) fn strictly_contains(self, other: Block) -> bool {
        let shrunk = Block { address: other.address, bits: self.bits };
        self.is_ipv4() == other.is_ipv4() && self.bits < other.bits && shrunk.first() == self.first()
    }
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.first(), self.bits)
    }
}

/// Checks that a text is an IP address in canonical form.
pub(super) fn canonical_ip(errors: &mut ErrorList, path: &Path<'_>, value: &str) {
    match parse_ip(value) {
        Err(fault) => errors.invalid(path, value, fault),
        Ok(ip) if ip.to_string() == value => {}
        Ok(ip) => errors.invalid(path, value, format!("must be in canonical form (\"{ip}\")")),
    }
}

/// Checks a CIDR block in any form and returns it.
pub(super) fn block(errors: &mut ErrorList, path: &Path<'_>, value: &Value) -> Option<Block> {
    let parsed = parse_block(text(value));
    if let Err(fault) = parsed {
        errors.invalid(path, text(value), fault);
    }
    parsed.ok()
}

/// Checks a CIDR block in canonical form and returns it.
pub(super) fn canonical_block(errors: &mut ErrorList, path: &Path<'_>, value: &Value) -> Option<Block> {
    let block = block(errors, path, value)?;
    if block.to_string() != text(value) {
        errors.invalid(path, text(value), format!("must be in canonical form (\"{block}\")"));
    }
    Some(block)
}

/// Checks that an address can be an endpoint: it is in no special range.
pub(super) fn endpoint(errors: &mut ErrorList, path: &Path<'_>, value: &str, ip: IpAddr) {
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    let special = [
        (ip.is_unspecified(), format!("may not be unspecified ({value})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (
            link_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    for (_, fault) in special.into_iter().filter(|(applies, _)| *applies) {
        errors.invalid(path, value, fault);
    }
}

//! [`Cidr`]: a CIDR block of one address family, for service networks, with the addresses that services may
//! have. Pure arithmetic; `validate` decides how strictly fields of objects are parsed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Bounds for the number of addresses reserved for explicit requests: a sixteenth of the block, within these
/// limits.
const STATIC_BAND: (u128, u128) = (16, 256);

/// CIDR block: a network address and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    v4: bool,
    /// Network address as a number.
    base: u128,
    bits: u8,
}

/// Error: the text is not a CIDR block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a block of addresses, such as 10.96.0.0/12 or fd00:96::/112")]
pub struct ParseCidrError;

impl FromStr for Cidr {
    type Err = ParseCidrError;

    /// Parses `ADDRESS/BITS`. Address bits beyond the prefix are dropped.
    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let (address, bits) = text.split_once('/').ok_or(ParseCidrError)?;
        let address: IpAddr = address.parse().map_err(|_| ParseCidrError)?;
        let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|_| digits).ok_or(ParseCidrError)?;
        let v4 = address.is_ipv4();
        if bits > width(v4) {
            return Err(ParseCidrError);
        }
        let base = number(address) >> host_bits(v4, bits).min(127) << host_bits(v4, bits).min(127);
        // A shift by 128 bits would overflow.
        let base = if host_bits(v4, bits) == 128 { 0 } else { base };
        Ok(Self { v4, base, bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at(self.base), self.bits)
    }
}

impl Cidr {
    /// Whether it holds IPv4 addresses.
    pub fn is_ipv4(self) -> bool {
        self.v4
    }

    /// Length of the prefix.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Number of addresses; saturates for the whole IPv6 space.
    pub fn size(self) -> u128 {
        1u128.checked_shl(host_bits(self.v4, self.bits)).unwrap_or(u128::MAX)
    }

    /// The first address that a service may have: the one after the network address.
    pub fn first(self) -> IpAddr {
        self.at(self.base.saturating_add(1))
    }

    /// Whether a service may have this address from this block: it is in the block and neither the network
    /// address nor, for IPv4, the broadcast address.
    pub fn gives(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.v4 && self.given().contains(&number(address))
    }

    /// Whether this block contains all addresses of another one.
    pub fn covers(self, other: Self) -> bool {
        let mine = self.base..=self.base.saturating_add(self.size() - 1);
        self.v4 == other.v4 && self.bits <= other.bits && mine.contains(&other.base)
    }

    /// Whether the two blocks have an address in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Address ranges for the search of a free address, as numbers: first those for automatic allocation,
    /// then those reserved for explicit requests, which serve when the first are used up. A range may be
    /// empty.
    pub fn bands(self) -> [RangeInclusive<u128>; 2] {
        let given = self.given();
        let band = match self.size() {
            size if size <= STATIC_BAND.0 => 0,
            size => (size / 16).clamp(STATIC_BAND.0, STATIC_BAND.1),
        };
        let start = given.start().saturating_add(band);
        [start..=*given.end(), *given.start()..=start.saturating_sub(1).min(*given.end())]
    }

    /// The address with this number.
    pub fn at(self, number: u128) -> IpAddr {
        if self.v4 {
            IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX)))
        } else {
            IpAddr::V6(Ipv6Addr::from(number))
        }
    }

    /// The sub-block with this index and a prefix of `bits`; `None` if the index is out of range.
    pub fn part(self, bits: u8, index: u128) -> Option<Self> {
        if bits < self.bits || bits > width(self.v4) {
            return None;
        }
        let (size, all) = (host_bits(self.v4, bits), host_bits(self.v4, self.bits));
        // The whole IPv6 space has one sub-block of its own size, and the number of its addresses overflows.
        let offset = if size == 128 { (index == 0).then_some(0)? } else { index.checked_mul(1 << size)? };
        (all == 128 || offset >> all == 0).then_some(Self { base: self.base + offset, bits, ..self })
    }

    /// Range of all addresses that services may have, as numbers.
    fn given(self) -> RangeInclusive<u128> {
        let last = self.base.saturating_add(self.size() - 1);
        let last = if self.v4 { last.saturating_sub(1) } else { last };
        self.base.saturating_add(1)..=last
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn width(v4: bool) -> u8 {
    if v4 { 32 } else { 128 }
}

fn host_bits(v4: bool, bits: u8) -> u32 {
    u32::from(width(v4) - bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn blocks_are_parsed_from_address_and_prefix_length() {
        for (text, shown) in [
            ("10.96.0.0/12", "10.96.0.0/12"),
            ("10.100.7.1/12", "10.96.0.0/12"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("10.0.0.9/32", "10.0.0.9/32"),
            ("fd00:96::7/112", "fd00:96::/112"),
            ("::5/0", "::/0"),
        ] {
            assert_eq!(cidr(text).to_string(), shown, "{text}");
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "x/8", "fd00::/129", ""] {
            assert_eq!(text.parse::<Cidr>(), Err(ParseCidrError), "{text}");
        }
    }

    #[test]
    fn network_and_broadcast_addresses_are_not_assigned() {
        let four = cidr("10.0.0.0/29");
        let given: Vec<u8> = (0..=9).filter(|n| four.gives(ip(&format!("10.0.0.{n}")))).collect();
        assert_eq!(given, [1, 2, 3, 4, 5, 6]);
        let six = cidr("fd00::/125");
        let given: Vec<u8> = (0..=9).filter(|n| six.gives(ip(&format!("fd00::{n}")))).collect();
        assert_eq!(given, [1, 2, 3, 4, 5, 6, 7], "IPv6 has no address for all");
        assert_eq!((four.first(), six.first()), (ip("10.0.0.1"), ip("fd00::1")));
        assert!(!four.gives(ip("fd00::1")));
        assert!(!cidr("10.0.0.1/32").gives(ip("10.0.0.1")), "there is nothing to give");
    }

    #[test]
    fn blocks_split_into_equal_parts() {
        let part = |text: &str, bits, index| cidr(text).part(bits, index).map(|part| part.to_string());
        for (text, bits, index, expected) in [
            ("10.0.0.0/8", 24, 0, Some("10.0.0.0/24")),
            ("10.0.0.0/8", 24, 65_535, Some("10.255.255.0/24")),
            ("10.0.0.0/8", 24, 65_536, None),
            ("10.0.0.0/24", 24, 0, Some("10.0.0.0/24")),
            ("10.0.0.0/24", 24, 1, None),
            ("10.0.0.0/24", 16, 0, None),
            ("10.0.0.0/24", 33, 0, None),
            ("0.0.0.0/0", 8, 255, Some("255.0.0.0/8")),
            ("fd00::/48", 64, 258, Some("fd00:0:0:102::/64")),
            ("::/0", 0, 0, Some("::/0")),
            ("::/0", 0, 1, None),
            ("::/0", 1, 1, Some("8000::/1")),
            ("::/0", 64, u128::MAX, None),
        ] {
            assert_eq!(part(text, bits, index).as_deref(), expected, "{text} {bits} {index}");
        }
    }

    #[test]
    fn lower_addresses_are_reserved_for_explicit_requests() {
        let shown = |text: &str| {
            let block = cidr(text);
            let [any, chosen] = block.bands();
            [any, chosen].map(|band| {
                (!band.is_empty()).then(|| format!("{}-{}", block.at(*band.start()), block.at(*band.end())))
            })
        };
        let parts = |any: &str, chosen: &str| [Some(any.to_owned()), Some(chosen.to_owned())];
        assert_eq!(shown("10.96.0.0/12"), parts("10.96.1.1-10.111.255.254", "10.96.0.1-10.96.1.0"));
        assert_eq!(shown("10.0.0.0/24"), parts("10.0.0.17-10.0.0.254", "10.0.0.1-10.0.0.16"));
        assert_eq!(shown("10.0.0.0/28"), [Some("10.0.0.1-10.0.0.14".to_owned()), None]);
        assert_eq!(shown("fd00::/112"), parts("fd00::101-fd00::ffff", "fd00::1-fd00::100"));
        assert_eq!(shown("10.0.0.0/31"), [None, None]);
    }

    #[test]
    fn wider_blocks_cover_narrower_ones() {
        assert!(cidr("10.0.0.0/8").covers(cidr("10.96.0.0/12")));
        assert!(cidr("10.0.0.0/8").covers(cidr("10.0.0.0/8")));
        assert!(!cidr("10.96.0.0/12").covers(cidr("10.0.0.0/8")));
        assert!(cidr("10.96.0.0/12").overlaps(cidr("10.0.0.0/8")));
        assert!(!cidr("10.0.0.0/9").overlaps(cidr("10.128.0.0/9")));
        assert!(!cidr("::/0").overlaps(cidr("0.0.0.0/0")));
    }

    proptest! {
        #[test]
        fn both_ranges_together_are_all_assignable_addresses(base: u32, bits in 20u8..=32, near: u16) {
            let block = cidr(&format!("{}/{bits}", Ipv4Addr::from(base)));
            let [any, chosen] = block.bands();
            let probe = block.base.saturating_sub(8) + u128::from(near) % (block.size() + 16);
            let inside = u128::from(any.contains(&probe)) + u128::from(chosen.contains(&probe));
            prop_assert_eq!(inside, u128::from(block.gives(block.at(probe))));
        }
    }
}

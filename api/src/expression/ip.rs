//! The CEL library `kubernetes.net.ip`: addresses without zones and without IPv4-mapped IPv6.

use super::row::{self, Named, Row};
use kstore_cel::{CallEstimate, CostRule, EvalError, Overload, Type, Val};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Name of the IP type.
pub(super) const TYPE: &str = "net.IP";

/// IP address value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ip(pub(super) IpAddr);

impl Named for Ip {
    const TYPE: &'static str = TYPE;

    fn size(&self) -> u64 {
        if self.0.is_ipv4() { 4 } else { 16 }
    }
}

/// Parses an address.
pub(super) fn parse(text: &str) -> Result<IpAddr, EvalError> {
    let address = text.split('%').next().unwrap_or_default();
    match address.parse::<IpAddr>() {
        Ok(_) if address.len() < text.len() => {
            Err(EvalError::other(format!("IP address {text:?} with zone value is not allowed")))
        }
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(EvalError::other(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(EvalError::other(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        ))),
    }
}

/// Functions of the library.
pub(super) fn overloads() -> Vec<Row> {
    let ty = || Type::opaque(TYPE);
    let is = |id: &str, test: fn(IpAddr) -> bool| {
        Overload::method(id, [ty()], Type::Bool, move |args| {
            Ok(Val::Bool(test(row::opaque::<Ip>(args, 0)?.0)))
        })
    };
    let read = |overload: Overload| overload.cost(row::traversal());
    let canonical = Overload::function("ip_is_canonical", [Type::String], Type::Bool, |args| {
        let text = row::text(args, 0)?;
        Ok(Val::Bool(parse(text)?.to_string() == text))
    });
    let canonical = canonical.cost(CostRule::new(
        |call| Some(CallEstimate::of(call.arg_size(0).cost(2.0 * row::TRAVERSAL))),
        |call| Some(row::scaled(call.arg_size(0), 2.0 * row::TRAVERSAL)),
    ));
    vec![
        (
            "ip",
            read(Overload::function("string_to_ip", [Type::String], ty(), |args| {
                Ok(row::value(Ip(parse(row::text(args, 0)?)?)))
            })),
        ),
        (
            "isIP",
            read(Overload::function("is_ip", [Type::String], Type::Bool, |args| {
                Ok(Val::Bool(parse(row::text(args, 0)?).is_ok()))
            })),
        ),
        ("ip.isCanonical", canonical),
        (
            "family",
            Overload::method("ip_family", [ty()], Type::Int, |args| {
                Ok(Val::Int(if row::opaque::<Ip>(args, 0)?.0.is_ipv4() { 4 } else { 6 }))
            }),
        ),
        ("isUnspecified", is("ip_is_unspecified", |ip| ip.is_unspecified())),
        ("isLoopback", is("ip_is_loopback", |ip| ip.is_loopback())),
        ("isLinkLocalMulticast", is("ip_is_link_local_multicast", is_link_local_multicast)),
        ("isLinkLocalUnicast", is("ip_is_link_local_unicast", is_link_local_unicast)),
        ("isGlobalUnicast", is("ip_is_global_unicast", is_global_unicast)),
        (
            "string",
            Overload::function("ip_to_string", [ty()], Type::String, |args| {
                Ok(Val::string(row::opaque::<Ip>(args, 0)?.0.to_string()))
            }),
        ),
    ]
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Whether an address is global unicast; private addresses are.
fn is_global_unicast(ip: IpAddr) -> bool {
    let is_no_host = ip == Ipv4Addr::UNSPECIFIED || ip == Ipv4Addr::BROADCAST || ip == Ipv6Addr::UNSPECIFIED;
    !is_no_host && !ip.is_loopback() && !ip.is_multicast() && !is_link_local_unicast(ip)
}

#[cfg(test)]
mod tests {
    use crate::expression::tests::check;

    #[test]
    fn ip_addresses_are_parsed_and_classified() {
        check(&[
            ("isIP('192.168.0.1')", "true"),
            ("isIP('192.168.0.256')", "false"),
            ("isIP('::ffff:1.2.3.4')", "false"),
            ("isIP('fe80::1%eth0')", "false"),
            ("ip('fe80::1%eth0')", "IP address \"fe80::1%eth0\" with zone value is not allowed"),
            ("ip('::ffff:1.2.3.4')", "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed"),
            ("ip('127.0.0.1') == ip('127.0.0.1')", "true"),
            ("ip.isCanonical('2001:DB8::1')", "false"),
            ("ip.isCanonical('2001:db8::1')", "true"),
            ("ip('10.0.0.1').family()", "4"),
            ("ip('::1').family()", "6"),
            ("ip('0.0.0.0').isUnspecified()", "true"),
            ("ip('127.0.0.1').isLoopback()", "true"),
            ("ip('224.0.0.1').isLinkLocalMulticast()", "true"),
            ("ip('ff02::1').isLinkLocalMulticast()", "true"),
            ("ip('fe80::1').isLinkLocalUnicast()", "true"),
            ("ip('10.0.0.1').isGlobalUnicast()", "true"),
            ("ip('255.255.255.255').isGlobalUnicast()", "false"),
            ("string(ip('2001:DB8::1'))", "\"2001:db8::1\""),
            ("type(ip('::1')) == net.IP", "true"),
        ]);
    }
}

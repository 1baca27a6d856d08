//! The CEL library `kubernetes.net.cidr`: CIDR blocks such as `10.0.0.0/8`, which keep the bits after their
//! prefix.

use super::ip::{self, Ip};
use super::row::{self, Named, Row};
use crate::cidr::Cidr;
use kstore_cel::{CallEstimate, CostEstimate, CostRule, EvalError, Overload, SizeEstimate, Type, Val};
use std::net::IpAddr;

/// Name of the CIDR type.
pub(super) const TYPE: &str = "net.CIDR";

/// Address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CidrValue {
    address: IpAddr,
    bits: u8,
}

impl Named for CidrValue {
    const TYPE: &'static str = TYPE;

    fn size(&self) -> u64 {
        u64::from(self.bits).div_ceil(8)
    }
}

impl CidrValue {
    fn parse(text: &str) -> Result<Self, EvalError> {
        let fail = |why: String| {
            let what = "network address parse error during conversion from string: ";
            EvalError::other(format!("{what}{why}"))
        };
        let go = |why: &str| {
            let what = "network address parse error during conversion from string: ";
            fail(format!("{what}netip.ParsePrefix({text:?}): {why}"))
        };
        let (address, bits) = text.rsplit_once('/').ok_or_else(|| go("no '/'"))?;
        let address: IpAddr = address.parse().map_err(|_| go("unable to parse IP"))?;
        let is_number = bits == "0" || (!bits.starts_with('0') && bits.bytes().all(|b| b.is_ascii_digit()));
        let length: u8 = bits
            .parse()
            .ok()
            .filter(|_| is_number)
            .ok_or_else(|| go(&format!("bad bits after slash: {bits:?}")))?;
        if length > if address.is_ipv4() { 32 } else { 128 } {
            return Err(go("prefix length out of range"));
        }
        match address {
            IpAddr::V6(own) if own.to_ipv4_mapped().is_some() => {
                Err(fail(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
            }
            _ => Ok(Self { address, bits: length }),
        }
    }

    /// The block with the bits after the prefix cleared.
    fn block(self) -> Option<Cidr> {
        format!("{}/{}", self.address, self.bits).parse().ok()
    }

    fn covers(self, address: IpAddr, bits: u8) -> bool {
        let inner = Self { address, bits }.block();
        self.block().zip(inner).is_some_and(|(own, inner)| own.covers(inner))
    }

    fn masked(self) -> Self {
        let text = self.block().map(|block| block.to_string());
        text.and_then(|text| Self::parse(&text).ok()).unwrap_or(self)
    }
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Functions of the library.
pub(super) fn overloads() -> Vec<Row> {
    let (ty, ip_type) = (|| Type::opaque(TYPE), || Type::opaque(ip::TYPE));
    let read = |overload: Overload| overload.cost(row::traversal());
    let own = |args: &[Val<'_>]| row::opaque::<CidrValue>(args, 0).copied();
    let mut rows = vec![
        (
            "cidr",
            read(Overload::function("string_to_cidr", [Type::String], ty(), |args| {
                Ok(row::value(CidrValue::parse(row::text(args, 0)?)?))
            })),
        ),
        (
            "isCIDR",
            read(Overload::function("is_cidr", [Type::String], Type::Bool, |args| {
                Ok(Val::Bool(CidrValue::parse(row::text(args, 0)?).is_ok()))
            })),
        ),
        (
            "ip",
            Overload::method("cidr_ip", [ty()], ip_type(), move |args| {
                Ok(row::value(Ip(own(args)?.address)))
            }),
        ),
        (
            "prefixLength",
            Overload::method("cidr_prefix_length", [ty()], Type::Int, move |args| {
                Ok(Val::Int(i64::from(own(args)?.bits)))
            }),
        ),
        (
            "masked",
            Overload::method("cidr_masked", [ty()], ty(), move |args| Ok(row::value(own(args)?.masked()))),
        ),
        (
            "string",
            Overload::function("cidr_to_string", [ty()], Type::String, move |args| {
                let own = own(args)?;
                Ok(Val::string(format!("{}/{}", own.address, own.bits)))
            }),
        ),
    ];
    rows.extend(contains());
    rows
}

/// Functions that check whether addresses and blocks are in a block.
fn contains() -> Vec<Row> {
    let ty = || Type::opaque(TYPE);
    let own = |args: &[Val<'_>]| row::opaque::<CidrValue>(args, 0).copied();
    let ip_text =
        Overload::method("cidr_contains_ip_string", [ty(), Type::String], Type::Bool, move |args| {
            let address = ip::parse(row::text(args, 1)?)?;
            Ok(Val::Bool(own(args)?.covers(address, width(address))))
        });
    let ip =
        Overload::method("cidr_contains_ip_ip", [ty(), Type::opaque(ip::TYPE)], Type::Bool, move |args| {
            let address = row::opaque::<Ip>(args, 1)?.0;
            Ok(Val::Bool(own(args)?.covers(address, width(address))))
        });
    let cidr_text =
        Overload::method("cidr_contains_cidr_string", [ty(), Type::String], Type::Bool, move |args| {
            let inner = CidrValue::parse(row::text(args, 1)?)?;
            Ok(Val::Bool(own(args)?.covers(inner.address, inner.bits)))
        });
    let cidr = Overload::method("cidr_contains_cidr", [ty(), ty()], Type::Bool, move |args| {
        let inner = row::opaque::<CidrValue>(args, 1)?;
        Ok(Val::Bool(own(args)?.covers(inner.address, inner.bits)))
    });
    vec![
        ("containsIP", costed(ip_text, false, true)),
        ("containsIP", costed(ip, false, false)),
        ("containsCIDR", costed(cidr_text, true, true)),
        ("containsCIDR", costed(cidr, true, false)),
    ]
}

/// Adds costs to an overload: comparing the bytes of two prefixes, masking one first for a block, and reading
/// a text.
fn costed(overload: Overload, is_block: bool, is_text: bool) -> Overload {
    overload.cost(CostRule::new(
        move |call| {
            let bytes = SizeEstimate { min: 4, max: 16 };
            let mut cost = bytes.plus(bytes).cost(row::TRAVERSAL);
            if is_block {
                cost = cost.plus(bytes.cost(row::TRAVERSAL)).plus(CostEstimate::fixed(1));
            }
            if is_text {
                cost = cost.plus(call.arg_size(0).cost(row::TRAVERSAL));
            }
            Some(CallEstimate::of(cost))
        },
        move |call| {
            let bytes = call.target_size();
            let mut cost = row::scaled(bytes.saturating_mul(2), row::TRAVERSAL);
            if is_block {
                cost = cost.saturating_add(row::scaled(bytes, row::TRAVERSAL)).saturating_add(1);
            }
            if is_text {
                cost = cost.saturating_add(row::scaled(call.arg_size(0), row::TRAVERSAL));
            }
            Some(cost)
        },
    ))
}

#[cfg(test)]
mod tests {
    use crate::expression::tests::check;

    #[test]
    fn cidr_blocks_are_parsed_and_contain_addresses_and_blocks() {
        check(&[
            ("isCIDR('10.0.0.0/8')", "true"),
            ("isCIDR('10.0.0.0/33')", "false"),
            ("isCIDR('10.0.0.0/08')", "false"),
            ("isCIDR('::ffff:1.2.3.4/120')", "false"),
            ("cidr('10.0.0.0/8').containsIP('10.1.2.3')", "true"),
            ("cidr('10.0.0.0/8').containsIP(ip('11.1.2.3'))", "false"),
            ("cidr('10.0.0.0/8').containsIP('::1')", "false"),
            ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')", "true"),
            ("cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))", "false"),
            ("cidr('10.0.0.5/8').ip() == ip('10.0.0.5')", "true"),
            ("cidr('10.0.0.5/8').prefixLength()", "8"),
            ("string(cidr('10.0.0.5/8').masked())", "\"10.0.0.0/8\""),
            ("cidr('10.0.0.5/8') == cidr('10.0.0.0/8')", "false"),
            ("cidr('0.0.0.0/0').containsIP('1.2.3.4')", "true"),
        ]);
    }
}

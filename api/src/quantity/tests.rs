//! Tests of canonical forms, compared with Kubernetes, and of arithmetic laws.

use super::{Format, Quantity, QuantityError, canonicalize, canonicalize_amount};
use proptest::prelude::*;

#[test]
fn canonical_forms_match_kubernetes() {
    let cases = [
        ("0", "0"),
        ("0Mi", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5."),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000Mi", "1000Mi"),
        ("1000k", "1M"),
        ("128974848", "128974848"),
        ("129e6", "129e6"),
        ("2e3", "2e3"),
        ("1e-3", "1e-3"),
        ("100e1", "1e3"),
        ("0.5Ki", "512"),
        ("0.0000000001", "1n"),
        ("1500u", "1500u"),
        ("-1.5Gi", "-1536Mi"),
        ("12345678901234567890123", "12345678901234567890123"),
        ("1E", "1E"),
        ("0.1Ki", "102400m"),
        ("0.1Gi", "107374182400m"),
        ("1.1Ki", "1126400m"),
        ("2.7Gi", "2899102924800m"),
        ("100e18", "100e18"),
        ("1000E", "1e21"),
        ("8Ei", "9223372036854775807"),
        ("9.5Ei", "9223372036854775807"),
        ("1025Mi", "1025Mi"),
        ("1464.84375Ki", "1500000"),
        ("2.5e30", "2500e27"),
        ("1e40", "10e39"),
        ("-1e43", "-10e42"),
        // Kubernetes takes these for canonical.
        ("999.999", "999.999"),
        ("1E6", "1E6"),
        ("+1", "+1"),
        ("+3", "+3"),
        ("00012", "00012"),
        ("007", "007"),
        ("-007Mi", "-007Mi"),
        ("2.500", "2.500"),
        ("0.100", "100m"),
        ("1.000", "1"),
        ("008Mi", "8Mi"),
        // It reads no digits at all as zero.
        (".", "0"),
        ("Ki", "0"),
        ("-", "0"),
    ];
    for (text, want) in cases {
        assert_eq!(canonicalize(text).as_deref(), Ok(want), "{text}");
    }
}

#[test]
fn malformed_quantities_are_refused_with_the_messages_of_kubernetes() {
    use QuantityError::{Format, Number, Suffix};
    let cases =
        [("", Format), ("1 Gi", Format), ("1Gi ", Format), ("ten", Format), ("1GB", Format), ("1i", Suffix)];
    let more = [
        ("1mm", Suffix),
        ("1e", Suffix),
        (".e-12", Number),
        ("e-10", Number),
        ("1.2.3", Format),
        ("1K", Suffix),
    ];
    for (text, want) in cases.into_iter().chain(more) {
        assert_eq!(Quantity::parse(text), Err(want), "{text}");
    }
}

#[test]
fn values_round_away_from_zero() {
    assert_eq!(Quantity::parse("1m").unwrap().units(), 1);
    assert_eq!(Quantity::parse("-1m").unwrap().units(), -1);
    assert_eq!(Quantity::parse("1500u").unwrap().milli(), 2);
    assert_eq!(Quantity::parse("1Gi").unwrap().units(), 1 << 30);
    assert_eq!(Quantity::parse("8Ei").unwrap().units(), i64::MAX);
}

#[test]
fn sums_keep_the_suffix_family_of_the_first_nonzero_operand() {
    let sum = Quantity::ZERO.add(Quantity::parse("1Gi").unwrap()).add(Quantity::parse("24M").unwrap());
    assert_eq!(sum.format(), Format::BinarySi);
    assert_eq!(sum.sub(Quantity::parse("24M").unwrap()).to_string(), "1Gi");
    assert_eq!(Quantity::from_milli(250).add(Quantity::from_milli(750)).to_string(), "1");
}

proptest! {
    #[test]
    fn canonical_form_keeps_the_value_and_is_stable(
        number in 0_u64..1_000_000_000_000, point in 0_usize..8,
        suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "e-2", "E"]),
    ) {
        let digits = format!("{number:08}");
        let (whole, fraction) = digits.split_at(digits.len() - point);
        let quantity = Quantity::parse(&format!("{whole}.{fraction}{suffix}")).unwrap();
        let text = quantity.to_string();
        let again = Quantity::parse(&text).unwrap();
        prop_assert_eq!(again, quantity);
        let kept = canonicalize(&format!("{whole}.{fraction}{suffix}")).unwrap();
        prop_assert_eq!(Quantity::parse(&kept).unwrap(), quantity);
        // A binary amount without a binary suffix is read as a decimal one.
        if quantity.format() != Format::BinarySi {
            prop_assert_eq!(canonicalize(&kept).unwrap(), kept);
            prop_assert_eq!(again.to_string(), text);
        }
    }

    /// A decimal text of any size keeps its digits and their power.
    #[test]
    fn large_decimal_amounts_are_exact(mantissa in 1_u64..1_000_000, power in 0_i64..200, is_negative: bool) {
        let sign = if is_negative { "-" } else { "" };
        let text = canonicalize(&format!("{sign}{mantissa}e{power}")).unwrap();
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: usize = exponent.parse().unwrap();
        let power = usize::try_from(power).unwrap();
        prop_assert_eq!(exponent % 3, 0);
        prop_assert_eq!(format!("{digits}{}", "0".repeat(exponent)), format!("{sign}{mantissa}{}", "0".repeat(power)));
    }

    #[test]
    fn amounts_of_resources_are_kept_or_rounded_up_to_thousandths(number in 0_u64..1_000_000_000, point in 0_usize..9) {
        let digits = format!("{number:09}");
        let (whole, fraction) = digits.split_at(digits.len() - point);
        let text = format!("{whole}.{fraction}");
        let (exact, amount) = (Quantity::parse(&text).unwrap(), canonicalize_amount(&text).unwrap());
        prop_assert_eq!(Quantity::parse(&amount).unwrap(), exact.in_milli());
    }

    #[test]
    fn parsing_arbitrary_texts_never_panics(text in "[-+]?[0-9.eEinumkKMGTP]{0,40}") {
        let _ = Quantity::parse(&text);
    }
}

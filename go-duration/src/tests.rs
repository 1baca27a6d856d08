//! Tables of Go's own cases (`TestParseDuration`, `TestParseDurationErrors`, `TestDurationString`), and properties.

use crate::{DurationError, format, parse, parse_format, parse_non_negative};
use proptest::prelude::*;
use regex::Regex;
use std::time::Duration;

const NS: i64 = 1;
const US: i64 = 1_000;
const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;
const M: i64 = 60 * S;
const H: i64 = 60 * M;

#[test]
fn durations_parse_as_in_go() {
    let table = [
        ("0", 0),
        ("5s", 5 * S),
        ("30s", 30 * S),
        ("1478s", 1478 * S),
        ("-5s", -5 * S),
        ("+5s", 5 * S),
        ("-0", 0),
        ("+0", 0),
        ("5.0s", 5 * S),
        ("5.6s", 5 * S + 600 * MS),
        ("5.s", 5 * S),
        (".5s", 500 * MS),
        ("1.0s", S),
        ("1.00s", S),
        ("1.004s", S + 4 * MS),
        ("1.0040s", S + 4 * MS),
        ("100.00100s", 100 * S + MS),
        ("10ns", 10 * NS),
        ("11us", 11 * US),
        ("12\u{b5}s", 12 * US),
        ("12\u{3bc}s", 12 * US),
        ("13ms", 13 * MS),
        ("14s", 14 * S),
        ("15m", 15 * M),
        ("16h", 16 * H),
        ("3h30m", 3 * H + 30 * M),
        ("10.5s4m", 4 * M + 10 * S + 500 * MS),
        ("-2m3.4s", -(2 * M + 3 * S + 400 * MS)),
        ("1h2m3s4ms5us6ns", H + 2 * M + 3 * S + 4 * MS + 5 * US + 6 * NS),
        ("39h9m14.425s", 39 * H + 9 * M + 14 * S + 425 * MS),
        ("52763797000ns", 52_763_797_000 * NS),
        // More than nine digits after the decimal point.
        ("0.3333333333333333333h", 20 * M),
        // 2⁵³ + 1 cannot be stored precisely in a double.
        ("9007199254740993ns", (1 << 53) + 1),
        ("9223372036854775807ns", i64::MAX),
        ("9223372036854775.807us", i64::MAX),
        ("9223372036s854ms775us807ns", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
        ("-9223372036854775.808us", i64::MIN),
        ("-9223372036s854ms775us808ns", i64::MIN),
        ("-2562047h47m16.854775808s", i64::MIN),
        ("0.100000000000000000000h", 6 * M),
        // Digits beyond the range of a duration do not count.
        ("0.830103483285477580700h", 49 * M + 48 * S + 372_539_827 * NS),
    ];
    for (text, nanos) in table {
        assert_eq!(parse(text), Ok(nanos), "{text}");
        let unsigned = u64::try_from(nanos).map(Duration::from_nanos).ok();
        assert_eq!(parse_non_negative(text).ok(), unsigned, "{text}");
    }
}

#[test]
fn other_texts_are_refused_in_the_words_of_go() {
    let table = [
        ("", "invalid duration \"\""),
        ("3", "missing unit in duration \"3\""),
        ("-", "invalid duration \"-\""),
        ("s", "invalid duration \"s\""),
        (".", "invalid duration \".\""),
        ("-.", "invalid duration \"-.\""),
        (".s", "invalid duration \".s\""),
        ("+.s", "invalid duration \"+.s\""),
        ("1d", "unknown unit \"d\" in duration \"1d\""),
        ("\u{85}\u{85}", "invalid duration \"\\xc2\\x85\\xc2\\x85\""),
        ("\u{ffff}", "invalid duration \"\\xef\\xbf\\xbf\""),
        ("hello \u{ffff} world", "invalid duration \"hello \\xef\\xbf\\xbf world\""),
        ("a\"b\\\t", "invalid duration \"a\\\"b\\\\\\x09\""),
        ("9223372036854775810ns", "invalid duration \"9223372036854775810ns\""),
        ("9223372036854775808ns", "invalid duration \"9223372036854775808ns\""),
        ("-9223372036854775809ns", "invalid duration \"-9223372036854775809ns\""),
        ("9223372036854776us", "invalid duration \"9223372036854776us\""),
        ("3000000h", "invalid duration \"3000000h\""),
        ("9223372036854775.808us", "invalid duration \"9223372036854775.808us\""),
        ("9223372036854ms775us808ns", "invalid duration \"9223372036854ms775us808ns\""),
        ("5 s", "unknown unit \" s\" in duration \"5 s\""),
        ("1..2s", "missing unit in duration \"1..2s\""),
        ("+-1s", "invalid duration \"+-1s\""),
        ("1e3s", "unknown unit \"e\" in duration \"1e3s\""),
        ("00", "missing unit in duration \"00\""),
    ];
    for (text, reason) in table {
        assert_eq!(parse(text).unwrap_err().to_string(), format!("time: {reason}"), "{text}");
    }
    assert_eq!(parse_non_negative("-1s"), Err(DurationError::Invalid("-1s".to_owned())));
}

#[test]
fn durations_print_as_in_go() {
    let table = [
        ("0s", 0),
        ("1ns", NS),
        ("1.1\u{b5}s", 1100 * NS),
        ("2.2ms", 2200 * US),
        ("3.3s", 3300 * MS),
        ("4m5s", 4 * M + 5 * S),
        ("4m5.001s", 4 * M + 5001 * MS),
        ("5h6m7.001s", 5 * H + 6 * M + 7001 * MS),
        ("8m0.000000001s", 8 * M + NS),
        ("1h0m0s", H),
        ("-1.5s", -1500 * MS),
        ("2562047h47m16.854775807s", i64::MAX),
        ("-2562047h47m16.854775808s", i64::MIN),
    ];
    for (text, nanos) in table {
        assert_eq!(format(nanos), text);
    }
}

#[test]
fn the_format_duration_also_has_units_in_words() {
    let table = [
        ("1h30m", Some(90 * M)),
        ("-1s", Some(-S)),
        ("2 weeks", Some(14 * 24 * H)),
        ("3 days and 1 hour", Some(73 * H)),
        ("1h 30m", Some(90 * M)),
        ("1 d", Some(24 * H)),
        ("5 minutes 4", Some(5 * M)),
        ("12 34 secs", Some(34 * S)),
        ("7 \u{b5}s", Some(7 * US)),
        ("2 fortnights", None),
        ("99999999999999999999 days", None),
        ("", None),
        ("soon", None),
    ];
    for (text, nanos) in table {
        assert_eq!(parse_format(text), nanos, "{text}");
    }
}

proptest! {
    /// A printed duration parses to itself.
    #[test]
    fn a_printed_duration_parses_to_the_same_value(nanos: i64) {
        prop_assert_eq!(parse(&format(nanos)), Ok(nanos));
    }

    /// The value of a sum is that of its parts in exact arithmetic, down to a nanosecond a fraction.
    #[test]
    fn a_sum_has_the_value_of_its_parts(
        parts in proptest::collection::vec((0_u32..500_000, 0_u32..1_000, 0_usize..6), 1..5), is_negative: bool
    ) {
        let units = [("ns", NS), ("us", US), ("ms", MS), ("s", S), ("m", M), ("h", H)];
        let (mut text, mut least, mut fractions) = (String::new(), 0_i128, 0);
        for (whole, thousandths, unit) in parts {
            let (name, size) = units[unit];
            text += &format!("{whole}.{thousandths:03}{name}");
            least += i128::from(whole) * i128::from(size) + i128::from(thousandths) * i128::from(size) / 1000;
            fractions += 1;
        }
        let signed = if is_negative { format!("-{text}") } else { text };
        let value = i128::from(parse(&signed).expect("the sum is below 292 years"));
        let value = if is_negative { -value } else { value };
        prop_assert!((value - least).abs() <= fractions, "{signed}: {value} for {least}");
    }

    /// No text makes a panic, and only texts of the grammar are durations.
    #[test]
    fn only_texts_of_the_grammar_are_durations(text in "[-+]{0,2}([0-9.]{0,4}(h|m|s|ms|us|ns|\u{b5}s|d| )?){0,4}") {
        let grammar = "^[-+]?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(h|ms|m|s|us|\u{b5}s|ns))+)$";
        let is_duration = Regex::new(grammar).unwrap().is_match(&text);
        prop_assert_eq!(parse(&text).is_ok(), is_duration, "{}", text);
        let _ = parse_format(&text);
    }
}

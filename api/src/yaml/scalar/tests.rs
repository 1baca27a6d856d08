//! Tests of single scalars.

use super::*;
use serde_json::json;

fn meaning(text: &str) -> Value {
    plain(text).into_json(text).unwrap_or_else(Value::String)
}

#[test]
fn plain_scalars_are_interpreted_like_go_yaml() {
    let cases: [(Value, &[&str]); 22] = [
        (json!(null), &["", "~", "null", "Null", "NULL"]),
        (json!(true), &["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"]),
        (json!(false), &["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]),
        (
            json!(420),
            &[
                "0644",
                "0o644",
                "0O644",
                "+0644",
                "0_644",
                "0x1A4",
                "0X1a4",
                "0b110100100",
                "420",
                "4_20",
                "420.0",
                "4.2e2",
                "4.2E+2",
            ],
        ),
        (json!(-420), &["-0644", "-0o644", "-0x1a4", "-0b110100100", "-420", "-420.", "0b-110100100"]),
        (json!(0), &["0", "00", "+0", "-0", "0.0", "-0.0", "0x0", "0e5"]),
        (json!(8), &["08", "8.", "008"]),
        (json!(1000), &["1_000", "1__0_00_", "1e3", "1_0e2"]),
        (json!(0.5), &[".5", "0.5", "+.5", "5e-1", "00.5"]),
        (json!(9_223_372_036_854_775_807_u64), &["9223372036854775807", "0x7fffffffffffffff"]),
        (
            json!(9_223_372_036_854_775_808_u64),
            &["9223372036854775808", "0x8000000000000000", "9223372036854775808.0"],
        ),
        (json!(18_446_744_073_709_551_616_f64), &["18446744073709551616", "18446744073709551616.0"]),
        (json!("json: unsupported value: +Inf"), &[".inf", ".Inf", ".INF", "+.inf"]),
        (json!("json: unsupported value: -Inf"), &["-.inf", "-.INF"]),
        (json!("json: unsupported value: NaN"), &[".nan", ".NaN", ".NAN"]),
        (json!("yEs"), &["yEs"]),
        (json!("0x10000000000000000"), &["0x10000000000000000"]),
        (json!("1e400"), &["1e400"]),
        (json!("1:30"), &["1:30"]),
        (json!("2001-12-14"), &["2001-12-14"]),
        (json!("2001-12-14T21:59:43.1Z"), &["2001-12-14T21:59:43.1Z"]),
        (json!("<<"), &["<<"]),
    ];
    for (want, texts) in cases {
        for text in texts {
            assert_eq!(meaning(text), want, "{text}");
        }
    }
    for text in [
        "0o", "0x", "0b", "0b12", "0xg", "+", "-", ".", "1e", "e1", "1.2.3", "1,5", "--1", "+-1", "0x-1",
        "_1", "inf", "nan", "Infinity", "1e5e5", "1.5Gi", "100m", "tRUE", "nULL", "=", ".e5", "-.", "0.5.",
        "٣",
    ] {
        assert_eq!(meaning(text), json!(text), "{text} is a text");
    }
}

#[test]
fn tags_determine_the_type_and_must_fit() {
    let read = |text: &str, tag: &str| {
        read(text, &ScalarForm::Tagged(tag.to_owned())).and_then(|s| s.into_json(text))
    };
    for (text, tag, want) in [
        ("yes", "str", json!("yes")),
        ("3", "int", json!(3)),
        ("3", "float", json!(3)),
        ("1.5", "float", json!(1.5)),
        ("no", "bool", json!(false)),
        ("", "null", json!(null)),
        ("2001-01-01", "timestamp", json!("2001-01-01")),
        ("aGVs\nbG8=", "binary", json!("hello")),
        ("1", "set", json!("1")),
    ] {
        assert_eq!(read(text, tag), Ok(want), "!!{tag} {text}");
    }
    assert_eq!(super::read("1", &ScalarForm::Text), Ok(Scalar::Text("1".to_owned())));
    for (text, tag, want) in [
        ("x", "int", "yaml: cannot decode !!str `x` as a !!int"),
        ("1.5", "int", "yaml: cannot decode !!float `1.5` as a !!int"),
        ("x", "timestamp", "yaml: cannot decode !!str `x` as a !!timestamp"),
        ("1", "bool", "yaml: cannot decode !!int `1` as a !!bool"),
        ("%", "binary", "yaml: !!binary value contains invalid base64 data"),
    ] {
        assert_eq!(read(text, tag), Err(want.to_owned()), "!!{tag} {text}");
    }
}

#[test]
fn non_text_keys_become_texts() {
    for (text, want) in [
        ("1", "1"),
        ("0x10", "16"),
        ("yes", "true"),
        ("off", "false"),
        ("1.0", "1"),
        ("0.1", "0.1"),
        ("123456.0", "123456"),
        ("1e6", "1e+06"),
        ("1.5e21", "1.5e+21"),
        ("1e-7", "1e-07"),
        (".inf", ".inf"),
        ("2001-01-01", "2001-01-01"),
        ("3e38", "3e+38"),
        ("1e-300", "0"),
        ("-0.0", "-0"),
    ] {
        assert_eq!(plain(text).into_key(text).map(|(key, _)| key), Ok(want.to_owned()), "{text}");
    }
    for text in ["~", "18446744073709551615"] {
        assert!(plain(text).into_key(text).unwrap_err().starts_with("unsupported map key"), "{text}");
    }
}

/// Found by fuzzing: finite as a float of 64 bits, infinite as one of 32 bits.
#[test]
fn keys_too_large_for_32_bit_floats_are_infinite() {
    for (text, want) in [("4e38", ".inf"), ("-1e300", "-.inf"), (&format!("8{}", "0".repeat(159)), ".inf")] {
        assert_eq!(plain(text).into_key(text).map(|(key, _)| key), Ok(want.to_owned()), "{text}");
    }
}

#[test]
fn ambiguous_texts_are_quoted() {
    for text in [
        "yes",
        "0644",
        "1_000",
        "",
        "~",
        "<<",
        "1:30",
        "+1:30:59.5_0",
        "2001-1-1",
        "2001-12-14T21:59:43+01:00",
        "2001-12-14 21:59:43.5",
        ".5",
    ] {
        assert!(!needs_no_quotes(text), "{text}");
    }
    for text in [
        "nginx:1.25",
        "8080:99",
        "yess",
        "1.5Gi",
        "v1",
        "2001-13-01",
        "2001-1",
        "a:30",
        "1:",
        "10.0.0.1",
        "1:30.x",
    ] {
        assert!(needs_no_quotes(text), "{text}");
    }
}

//! Tests of lenient decoding beside `serde_json`: what both read is equal, and both refuse what is no JSON.

use super::*;
use crate::limits::JSON_DEPTH;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// JSON values with strings that need escapes, and numbers of all forms.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-20i64..20).prop_map(Value::from),
        "[a-z\"\\\\\n\u{e9}\u{1f600} ]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\u{e9}]{0,3}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Whether `serde_json` and this module agree about a text.
fn assert_agreement(text: &[u8]) -> Result<(), TestCaseError> {
    let (expected, read) = (serde_json::from_slice::<Value>(text), from_slice::<Value>(text));
    match (expected, read) {
        (Ok(expected), Ok(read)) => prop_assert_eq!(expected, read),
        (Err(_), Err(_)) => {}
        (expected, read) => prop_assert!(false, "{expected:?} and {read:?}"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_value_is_read_as_serde_json_reads_it(value in values(), is_pretty: bool) {
        let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        assert_agreement(text.unwrap().as_bytes())?;
    }

    #[test]
    fn a_damaged_text_is_refused_where_serde_json_refuses_it(
        value in values(), at: prop::sample::Index, byte in prop::sample::select(&b"\"\\,:[]{}0-.eEn tfu\n\x01\xff"[..]), is_cut: bool,
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = at.index(text.len());
        match is_cut {
            true => text.truncate(at),
            false => text[at] = byte,
        }
        assert_agreement(&text)?;
    }

    #[test]
    fn skipped_values_end_where_others_begin(first in values(), second in values()) {
        #[derive(Debug, Deserialize)]
        struct Pair {
            second: Value,
            raw: Box<RawValue>,
        }
        let text = json!({"first": first, "raw": first, "second": second}).to_string();
        let read: Pair = from_slice(text.as_bytes()).unwrap();
        prop_assert_eq!(read.second, second);
        prop_assert_eq!(serde_json::from_str::<Value>(read.raw.get()).unwrap(), first);
    }
}

#[test]
fn numbers_and_strings_have_the_values_of_serde_json() {
    for text in [
        "0",
        "-0",
        "-1",
        "999999999999999999",
        "1000000000000000000",
        "-999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "1e3",
        "1.0",
        "-0.5e-7",
        "01",
        "1.",
        "-",
        "+1",
        "1e",
        "1e999",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\x\"",
        "\"a\\\"",
        "\"a\nb\"",
        "nul",
        "truee",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{1:2}",
        "{\"a\":1,\"a\":2}",
        " [ ] ",
        "[]]",
        "",
        " ",
    ] {
        assert_agreement(text.as_bytes()).unwrap();
    }
}

#[derive(Debug, PartialEq, Deserialize)]
enum Shape {
    Unit,
    Number(i32),
    Pair(i32, String),
    Struct { side: i32 },
}

#[test]
fn enums_are_names_or_objects_with_one_member() {
    let read = |json: &str| from_slice::<Shape>(json.as_bytes());
    assert_eq!(read("\"Unit\"").unwrap(), Shape::Unit);
    assert_eq!(read("{\"Unit\": null}").unwrap(), Shape::Unit);
    assert_eq!(read("{\"Number\": 7}").unwrap(), Shape::Number(7));
    assert_eq!(read("{\"Pair\": [7, \"a\"]}").unwrap(), Shape::Pair(7, "a".to_owned()));
    assert_eq!(read("{\"Struct\": {\"side\": 7}}").unwrap(), Shape::Struct { side: 7 });
    for wrong in
        ["\"Number\"", "\"Other\"", "{}", "7", "{\"Number\": 7, \"Unit\": null}", "{\"Pair\": [7, \"a\", 1]}"]
    {
        read(wrong).unwrap_err();
    }
}

#[test]
fn errors_name_their_place() {
    let error = from_slice::<BTreeMap<String, i32>>(b"{\n  \"a\": \"b\"\n}").unwrap_err();
    assert_eq!((error.line(), error.column()), (2, 10), "{error}");
    let error = from_slice::<i8>(b"300").unwrap_err();
    assert!(error.to_string().contains("300"), "{error}");
    let error = from_slice::<Value>(b"{\"a\": ").unwrap_err();
    assert!(error.is_eof(), "{error}");
    from_slice::<String>(b"\"\xff\"").unwrap_err();
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_agreement(nested(JSON_DEPTH).as_bytes()).unwrap();
    assert!(from_slice::<Value>(nested(JSON_DEPTH).as_bytes()).is_ok());
    assert!(from_slice::<Value>(nested(JSON_DEPTH + 1).as_bytes()).is_err());
}

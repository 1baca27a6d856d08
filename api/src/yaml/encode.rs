//! Encoding of JSON values as YAML that parsers of versions 1.1 and 1.2 read alike. A text that either would read as another
//! type, or that has unusual characters, is quoted. Texts of several lines are block scalars. Pure.

use super::needs_no_quotes;
use serde_json::{Map, Value};

/// Columns of one level of indentation.
const STEP: usize = 2;

/// Encodes a value as a document.
#[must_use]
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => put_map(map, 0, false, &mut out),
        Value::Array(items) if !items.is_empty() => put_list(items, 0, false, &mut out),
        other => put_rest(other, STEP, &mut out),
    }
    out
}

/// Writes the entries of a map; the first entry begins at the cursor if `inline`.
fn put_map(map: &Map<String, Value>, indent: usize, inline: bool, out: &mut String) {
    for (at, (name, value)) in map.iter().enumerate() {
        pad(if at == 0 && inline { 0 } else { indent }, out);
        put_text(name, out);
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                put_map(map, indent + STEP, false, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                put_list(items, indent, false, out);
            }
            other => {
                out.push(' ');
                put_rest(other, indent + STEP, out);
            }
        }
    }
}

fn put_list(items: &[Value], indent: usize, inline: bool, out: &mut String) {
    for (at, value) in items.iter().enumerate() {
        pad(if at == 0 && inline { 0 } else { indent }, out);
        out.push_str("- ");
        match value {
            Value::Object(map) if !map.is_empty() => put_map(map, indent + STEP, true, out),
            Value::Array(items) if !items.is_empty() => put_list(items, indent + STEP, true, out),
            other => put_rest(other, indent + STEP, out),
        }
    }
}

/// Writes a scalar or an empty collection, and ends its line.
fn put_rest(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) if has_lines(text) => return put_lines(text, indent, out),
        Value::String(text) => put_text(text, out),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
    out.push('\n');
}

/// Writes a text of one line. YAML reads all escapes of JSON.
fn put_text(text: &str, out: &mut String) {
    if is_ordinary(text) {
        out.push_str(text);
    } else {
        let quoted = Value::from(text).to_string();
        quoted.chars().for_each(|c| match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        });
    }
}

/// Whether a text can be written without quotes: its letters, digits and marks have no meaning in YAML at
/// their position.
fn is_ordinary(text: &str) -> bool {
    let mark = |c: char| matches!(c, '_' | '.' | '/' | '-' | ':' | '@' | '+' | '=' | ',' | '(' | ')' | ' ');
    text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '/' | '_'))
        && text.chars().all(|c| c.is_alphanumeric() || mark(c))
        && !text.contains(": ")
        && !text.ends_with([' ', ':'])
        && needs_no_quotes(text)
}

/// Whether a text can be written as a block scalar.
fn has_lines(text: &str) -> bool {
    let printable = |c: char| c == '\n' || matches!(c, ' '..='~') || c.is_alphanumeric();
    text.contains('\n')
        && !text.starts_with([' ', '\n'])
        && text.chars().all(printable)
        // A text that consists of line ends, or has blanks before its end, is clearer in quotes.
        && !text.trim_end_matches('\n').ends_with(' ')
}

/// Writes a text as a block scalar; the indicator states how many line ends at its end count.
fn put_lines(text: &str, indent: usize, out: &mut String) {
    let (mark, body) = match text.strip_suffix('\n') {
        None => ("|-", text),
        Some(body) if body.ends_with('\n') => ("|+", body),
        Some(body) => ("|", body),
    };
    out.push_str(mark);
    out.push('\n');
    for line in body.split('\n') {
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn pad(columns: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', columns));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::parse;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn ambiguous_texts_are_quoted() {
        let value = json!({"a": "yes", "b": "0644", "c": "1_000", "d": "", "e": "x: y", "f": true, "g": [{"h": null, "i": {}}, [1, ["x"]]], "j": [],
            "y": "2024-01-02T03:04:05Z", "z": "nginx:1.25", "l": "two\n\n  lines\n", "m": "one\nand another", "n": 1.5, "o": "- x", "p": "a #b", "q": ["k\n\n"]});
        let text = "a: \"yes\"\nb: \"0644\"\nc: \"1_000\"\nd: \"\"\ne: \"x: y\"\nf: true\ng:\n- h: null\n  i: {}\n- - 1\n  - - x\nj: []\nl: |\n  two\n\n    lines\n\
                    m: |-\n  one\n  and another\n\"n\": 1.5\no: \"- x\"\np: \"a #b\"\nq:\n- |+\n  k\n\n\"y\": \"2024-01-02T03:04:05Z\"\nz: nginx:1.25\n";
        assert_eq!(encode(&value), text);
        for (value, text) in [
            (json!({}), "{}\n"),
            (json!([]), "[]\n"),
            (json!("x"), "x\n"),
            (json!(null), "null\n"),
            (json!([[]]), "- []\n"),
        ] {
            assert_eq!(encode(&value), text);
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~\n\t\r\u{7f}\u{85}\u{a0}é\u{2028}\u{feff}😀]{0,12}",
            "[-+.0-9_xobe:ynTZ~ ]{0,8}",
            "[ab \n]{0,8}"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 20, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_round_trips_through_parsers_of_both_versions(value in any_value()) {
            let text = encode(&value);
            let read = parse(text.as_bytes(), usize::MAX).map(|document| document.value);
            prop_assert_eq!(read, Ok(value.clone()), "{}", &text);
            prop_assert_eq!(serde_yaml_ng::from_str::<Value>(&text).map_err(|e| e.to_string()), Ok(value), "{}", text);
        }
    }
}

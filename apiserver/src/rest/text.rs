//! Text for people: YAML and indented JSON, of a whole object and of an item in a list. Items are indented
//! line by line, so that a list can be encoded item by item. Pure.

use bytes::{BufMut, Bytes, BytesMut};
use kstore_api::{json, yaml};
use serde_json::Value;

/// A value as indented JSON.
pub(super) fn pretty(value: &Value) -> String {
    json::to_string_pretty(value)
}

/// Appends an item of a YAML list that is a member of the document.
pub(super) fn put_yaml_item(value: &Value, out: &mut BytesMut) {
    let text = yaml::encode(value);
    for (at, line) in text.lines().enumerate() {
        // An empty line is inside a text, and stays empty there.
        let indent = if at == 0 {
            "- "
        } else if line.is_empty() {
            ""
        } else {
            "  "
        };
        out.put_slice(indent.as_bytes());
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
}

/// Appends an item of an indented JSON list that is a member of the document. Strings in JSON have escaped
/// line breaks only.
pub(super) fn put_pretty_item(value: &Value, out: &mut BytesMut) {
    out.put_slice(b"\n    ");
    out.put_slice(pretty(value).replace('\n', "\n    ").as_bytes());
}

/// The head and tail of a document around the items of one of its members. `rest` is the document without
/// that member.
pub(super) fn around(rest: &Value, member: &str, empty: bool, as_yaml: bool) -> (Bytes, Bytes) {
    if as_yaml {
        let head = if empty { format!("{member}: []\n") } else { format!("{member}:\n") };
        return (head.into(), yaml::encode(rest).into());
    }
    let mut head = pretty(rest);
    head.truncate(head.len() - "\n}".len());
    let tail = if empty { "]\n}\n" } else { "\n  ]\n}\n" };
    (format!("{head},\n  \"{member}\": [").into(), tail.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_encoded_item_by_item_equal_whole_documents() {
        let items = [
            json!({"a": "text\n\n  with lines\n", "b": [1, {"c": null}], "d": {}}),
            json!({"a": " leading", "b": "- no: yaml", "e": "trailing\n\n"}),
        ];
        for count in 0..=2 {
            let items = &items[..count];
            let mut whole = json!({"kind": "List", "metadata": {"resourceVersion": "7"}});
            let (head, tail) = around(&whole, "items", items.is_empty(), true);
            let (start, end) = around(&whole, "items", items.is_empty(), false);
            let (mut yaml, mut json) = (BytesMut::from(&head[..]), BytesMut::from(&start[..]));
            for (at, item) in items.iter().enumerate() {
                put_yaml_item(item, &mut yaml);
                json.put_slice(if at > 0 { b"," } else { b"" });
                put_pretty_item(item, &mut json);
            }
            yaml.put_slice(&tail);
            json.put_slice(&end);
            whole["items"] = json!(items);
            assert_eq!(serde_yaml_ng::from_slice::<Value>(&yaml).unwrap(), whole);
            assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), whole);
            assert!(json.ends_with(b"]\n}\n"));
        }
    }
}

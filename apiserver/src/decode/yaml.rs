//! YAML texts → JSON values. One document; aliases are followed, but not into more memory than a body may take; keys that a map
//! states twice are counted, and named with their lines if somebody asks.

use crate::limits::{BODY_BYTES, YAML_VALUES};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// A document.
pub(super) struct Document {
    /// What it says; of a key that is stated twice, the last value.
    pub value: Value,
    /// How many keys are stated again.
    pub repeated: usize,
}

/// Reads a document.
///
/// # Errors
/// It is not YAML, or unfolds into more than a body may hold.
pub(super) fn parse(text: &[u8]) -> Result<Document, String> {
    let mut state = State { values: 0, bytes: 0, repeated: 0, stop_at: None };
    let value = state.read(text).map_err(|e| e.to_string())?;
    Ok(Document { value, repeated: state.repeated })
}

/// The keys stated again, as Go's YAML names them: `line 10: key "replicas" already set in map`. At most `most` of them.
pub(super) fn repeated(text: &[u8], count: usize, most: usize) -> Vec<String> {
    // Only an error tells its line, and the first one ends the reading.
    let nth = |nth: usize| {
        let mut state = State { values: 0, bytes: 0, repeated: 0, stop_at: Some(nth) };
        let error = state.read(text).err()?;
        let line = error.location()?.line();
        let said = error.to_string();
        let key = said.split(REPEATED).nth(1)?;
        Some(format!("line {line}: key \"{key}\" already set in map"))
    };
    (0..count.min(most)).filter_map(nth).collect()
}

/// Encloses the key in the error that stops at it.
const REPEATED: &str = "\u{1}";

struct State {
    values: usize,
    bytes: usize,
    repeated: usize,
    /// The repeated key at which to stop.
    stop_at: Option<usize>,
}

impl State {
    fn read(&mut self, text: &[u8]) -> Result<Value, serde_yaml_ng::Error> {
        Seed(self).deserialize(serde_yaml_ng::Deserializer::from_slice(text))
    }

    fn count<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.values += 1;
        self.bytes += bytes;
        if self.values > YAML_VALUES || self.bytes > BODY_BYTES {
            return Err(E::custom("document contains excessive aliasing"));
        }
        Ok(())
    }
}

struct Seed<'a>(&'a mut State);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.count(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(Key { state: self.0, map: &map })? {
            let value = entries.next_value_seed(Seed(self.0))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.0.count(0)?;
        let mut items = Vec::new();
        while let Some(item) = entries.next_element_seed(Seed(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_bool<E: serde::de::Error>(self, set: bool) -> Result<Value, E> {
        self.0.count(0).map(|()| Value::Bool(set))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Value, E> {
        self.0.count(0).map(|()| number.into())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Value, E> {
        self.0.count(0).map(|()| number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Value, E> {
        self.0.count(0)?;
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("JSON has no such number"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.0.count(text.len()).map(|()| text.into())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.0.count(0).map(|()| Value::Null)
    }

    /// An empty document.
    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        self.visit_unit()
    }
}

/// A key of a map, which may have it already.
struct Key<'a> {
    state: &'a mut State,
    map: &'a Map<String, Value>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<String, E> {
        self.state.count(key.len())?;
        if self.map.contains_key(key) {
            if self.state.stop_at == Some(self.state.repeated) {
                return Err(E::custom(format!("{REPEATED}{key}{REPEATED}")));
            }
            self.state.repeated += 1;
        }
        Ok(key.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Value, String> {
        parse(text.as_bytes()).map(|document| document.value)
    }

    #[test]
    fn documents_become_the_json_they_mean() {
        let text = "a: 1\nb: [x, 1.5, true, null, '1', -7]\nc: {d: |\n  two\n  lines\n}\n1: number\n";
        assert!(read(text).is_err(), "a block inside a flow map");
        let text = "a: 1\nb: [x, 1.5, true, null, '1', -7]\nc:\n  d: |\n    two\n    lines\n1: number\nbase: &x {k: v}\nagain: *x\n";
        let want = json!({"a": 1, "b": ["x", 1.5, true, null, "1", -7], "c": {"d": "two\nlines\n"}, "1": "number",
            "base": {"k": "v"}, "again": {"k": "v"}});
        assert_eq!(read(text).unwrap(), want);
        assert_eq!(read(r#"{"json": ["is", "yaml"]}"#).unwrap(), json!({"json": ["is", "yaml"]}));
        for nothing in ["", "\r", "# only a remark\n", "~", "null"] {
            assert_eq!(read(nothing).unwrap(), Value::Null, "{nothing:?}");
        }
        for bad in ["a: b: c", "[1", "a: &x [*x]", "---\na: 1\n---\nb: 1\n", "x: .inf", "\tx: 1"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_stated_again_are_named_with_their_lines() {
        let text = "a: 1\nspec:\n  replicas: 1\n  x:\n  - {k: 1,\n     k: 2}\n  replicas: 2\n";
        let document = parse(text.as_bytes()).unwrap();
        assert_eq!((document.repeated, &document.value["spec"]["replicas"]), (2, &json!(2)));
        let want = ["line 6: key \"k\" already set in map", "line 7: key \"replicas\" already set in map"];
        assert_eq!(repeated(text.as_bytes(), 2, 10), want);
        assert_eq!(repeated(text.as_bytes(), 2, 1), want[..1]);
    }

    #[test]
    fn aliases_do_not_multiply_without_bound() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let below = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        assert!(read(&bomb).is_err());
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100].join(", "));
        assert!(read(&long).unwrap_err().contains("excessive aliasing"));
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-a-c:&*\\[\\]{}, \n'\"|>!%#0-9.]{0,60}") {
            if let Ok(document) = parse(text.as_bytes()) {
                let named = repeated(text.as_bytes(), document.repeated, 100);
                prop_assert_eq!(named.len(), document.repeated);
            }
        }
    }
}

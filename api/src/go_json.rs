//! Decoding of untrusted JSON with the error messages of Go's decoder.

use crate::schema::scalar::{self, json_kind};
use serde_json::{Map, Value};

/// Parses a JSON text.
///
/// # Errors
/// Go's message for a syntax error.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| syntax_error(bytes, &error))
}

fn syntax_error(bytes: &[u8], error: &serde_json::Error) -> String {
    let first = bytes.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    match first {
        _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
        None => "unexpected end of JSON input".to_owned(),
        Some(first) if !matches!(first, b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
            format!("invalid character {} looking for beginning of value", quoted(*first))
        }
        // Go names the wrong character; serde_json names its position, which is more helpful.
        Some(_) => error.to_string(),
    }
}

/// A character quoted like Go.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b if b.is_ascii_graphic() || b == b' ' => format!("'{}'", char::from(b)),
        b if b.is_ascii() => format!("'\\x{b:02x}'"),
        b => format!("'{}'", char::from(b)),
    }
}

/// Struct of a JSON document, read member by member. `null` and absence are equal.
pub(crate) struct Struct<'v> {
    members: &'v Map<String, Value>,
    /// Go name of the struct.
    name: &'static str,
    /// Path of the struct, with a trailing dot; empty for the root.
    path: String,
}

static NO_MEMBERS: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

impl<'v> Struct<'v> {
    /// The root of a document.
    ///
    /// # Errors
    /// The document is not a JSON object; `go_type` is the type in the message.
    pub(crate) fn root(value: &'v Value, name: &'static str, go_type: &str) -> Result<Self, String> {
        let members = match value {
            Value::Object(members) => members,
            Value::Null => &NO_MEMBERS,
            other => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go value of type {go_type}",
                    json_kind(other)
                ));
            }
        };
        Ok(Self { members, name, path: String::new() })
    }

    /// A member that is present and not null.
    pub(crate) fn member(&self, name: &str) -> Option<&'v Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Error message for a member of the wrong type.
    pub(crate) fn type_error(&self, name: &str, found: &Value, go_type: &str) -> String {
        let found = match found {
            Value::Number(number) if go_type.starts_with("int") => format!("number {number}"),
            other => json_kind(other).to_owned(),
        };
        let (owner, path) = (self.name, &self.path);
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path}{name} of type {go_type}")
    }

    /// A string; empty if absent.
    pub(crate) fn text(&self, name: &str, go_type: &str) -> Result<&'v str, String> {
        Ok(self.optional_text(name, go_type)?.unwrap_or_default())
    }

    /// A string that may be absent.
    pub(crate) fn optional_text(&self, name: &str, go_type: &str) -> Result<Option<&'v str>, String> {
        match self.member(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.type_error(name, other, go_type)),
        }
    }

    /// A boolean; false if absent.
    pub(crate) fn bool(&self, name: &str) -> Result<bool, String> {
        match self.member(name) {
            None => Ok(false),
            Some(Value::Bool(is)) => Ok(*is),
            Some(other) => Err(self.type_error(name, other, "bool")),
        }
    }

    /// An int32; 0 if absent.
    pub(crate) fn int(&self, name: &str) -> Result<i32, String> {
        match self.member(name) {
            None => Ok(0),
            Some(value) => {
                let number = value.as_i64().and_then(|number| i32::try_from(number).ok());
                number.ok_or_else(|| self.type_error(name, value, "int32"))
            }
        }
    }

    /// Bytes from base64; none if absent.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        let text = self.text(name, "[]uint8")?;
        scalar::bytes(text).map_err(|error| error.to_string())
    }

    /// A nested struct; `None` if absent.
    pub(crate) fn object(
        &self,
        name: &str,
        go_name: &'static str,
        go_type: &str,
    ) -> Result<Option<Struct<'v>>, String> {
        match self.member(name) {
            None => Ok(None),
            Some(Value::Object(members)) => {
                Ok(Some(Struct { members, name: go_name, path: format!("{}{name}.", self.path) }))
            }
            Some(other) => Err(self.type_error(name, other, go_type)),
        }
    }

    /// The items of a list; none if absent.
    pub(crate) fn items(&self, name: &str, go_type: &str) -> Result<&'v [Value], String> {
        match self.member(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(other) => Err(self.type_error(name, other, go_type)),
        }
    }

    /// A struct in a list of structs.
    pub(crate) fn item(
        &self,
        name: &str,
        item: &'v Value,
        go_name: &'static str,
        go_type: &str,
    ) -> Result<Self, String> {
        let members = match item {
            Value::Object(members) => members,
            Value::Null => &NO_MEMBERS,
            other => return Err(self.type_error(name, other, go_type)),
        };
        Ok(Struct { members, name: go_name, path: format!("{}{name}.", self.path) })
    }

    /// A list of strings; none if absent. A null is the empty string.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<&'v str>, String> {
        let text = |item: &'v Value| match item {
            Value::Null => Ok(""),
            Value::String(text) => Ok(text.as_str()),
            other => Err(self.type_error(name, other, "string")),
        };
        self.items(name, "[]string")?.iter().map(text).collect()
    }

    /// A map of strings; none if absent.
    pub(crate) fn text_map(&self, name: &str) -> Result<Vec<(&'v str, &'v str)>, String> {
        let members = match self.member(name) {
            None => return Ok(Vec::new()),
            Some(Value::Object(members)) => members,
            Some(other) => return Err(self.type_error(name, other, "map[string]string")),
        };
        let text = |(key, value): (&'v String, &'v Value)| match value {
            Value::Null => Ok((key.as_str(), "")),
            Value::String(text) => Ok((key.as_str(), text.as_str())),
            other => Err(self.type_error(name, other, "string")),
        };
        members.iter().map(text).collect()
    }
}

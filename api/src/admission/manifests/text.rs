//! The documents of a file: YAML, several of them behind each other, or JSON.

use crate::limits::MANIFEST_BYTES;
use crate::schema::{Type, decode, strict};
use crate::{json, yaml};
use serde_json::Value;
use std::borrow::Cow;

/// The documents of a text. A line that begins with `---` separates them; empty ones are left out.
pub(super) fn documents(text: &str) -> impl Iterator<Item = &str> {
    let mut starts = vec![0];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty()) {
            starts.extend([at, at + line.len()]);
        }
        at += line.len();
    }
    starts.push(text.len());
    // Pairs of a document's begin and end: each separator ends one and begins the next.
    let pairs: Vec<(usize, usize)> = starts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs
        .into_iter()
        .map(move |(begin, end)| text[begin..end].trim())
        .filter(|document| has_content(document))
}

/// Whether a document has more than comments.
fn has_content(document: &str) -> bool {
    document.lines().map(str::trim).any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A parsed document.
pub(super) struct Parsed<'t> {
    pub(super) value: Value,
    /// The text as JSON, which may repeat members.
    json: Option<Cow<'t, [u8]>>,
}

impl Parsed<'_> {
    /// The source of an object that was part of another document.
    pub(super) fn unread() -> Self {
        Self { value: Value::Null, json: None }
    }

    /// Decodes an object of this document, and returns its unknown and doubled members.
    ///
    /// # Errors
    /// A value of a wrong type.
    pub(super) fn decode(&self, object: &mut Value, ty: &'static Type) -> Result<Vec<String>, String> {
        let unknown =
            decode::normalize(object, ty, decode::Mode::Whole).map_err(|error| error.to_string())?;
        let found = match &self.json {
            Some(text) => strict::in_document_order(text, unknown, Some(ty)),
            None => unknown,
        };
        Ok(found.iter().map(ToString::to_string).collect())
    }
}

/// Parses a document.
///
/// # Errors
/// It is neither JSON nor YAML, or repeats a key.
pub(super) fn parse(document: &str) -> Result<Parsed<'_>, String> {
    if document.starts_with('{') {
        let (value, text) = json::parse(document.as_bytes()).map_err(|error| error.to_string())?;
        return Ok(Parsed { value, json: Some(text) });
    }
    let yaml::Document { value, repeated } = yaml::parse(document.as_bytes(), MANIFEST_BYTES)?;
    match repeated.is_empty() {
        true => Ok(Parsed { value, json: None }),
        false => Err(format!("strict decoding error: {}", repeated.join(", "))),
    }
}

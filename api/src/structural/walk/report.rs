//! Errors collected by a validation walk, which can be dropped again when their value turns out to be
//! unchanged.

use crate::field::{ErrorList, FieldError, FieldErrorKind, Path};
use crate::limits::{ERROR_BYTES_MAX, ERRORS_MAX};
use serde_json::Value;

/// Field of errors without a path.
pub(in crate::structural) const NO_FIELD: &str = "<nil>";

/// Distinct errors in order, at most as many as an [`ErrorList`] holds.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<FieldError>);

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether further errors are dropped, so that a walk can stop.
    pub(super) fn is_full(&self) -> bool {
        let bytes = |error: &FieldError| {
            error.detail.len() + error.field.len() + error.value.as_ref().map_or(0, String::len)
        };
        self.0.len() >= ERRORS_MAX || self.0.iter().map(bytes).sum::<usize>() >= ERROR_BYTES_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Drops all errors after the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(super) fn push(&mut self, error: FieldError) {
        if !self.is_full() && !self.0.contains(&error) {
            self.0.push(error);
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|error| self.push(error));
    }

    pub(super) fn into_list(self) -> ErrorList {
        let mut list = ErrorList::new();
        self.0.into_iter().for_each(|error| list.push(error));
        list
    }
}

/// Path of errors in two forms: texts show the path from the checked value, fields begin at the object.
#[derive(Clone, Copy)]
pub(super) struct ErrorLocation<'a> {
    /// Prefix of fields: the path of the checked value in its object, or empty.
    pub(super) base: &'a str,
    /// Path from the checked value.
    pub(super) path: Path<'a>,
}

impl<'a> ErrorLocation<'a> {
    pub(super) const fn child<'b>(&'b self, name: &'b str) -> ErrorLocation<'b>
    where
        'a: 'b,
    {
        ErrorLocation { base: self.base, path: self.path.child(name) }
    }

    pub(super) const fn index<'b>(&'b self, at: usize) -> ErrorLocation<'b>
    where
        'a: 'b,
    {
        ErrorLocation { base: self.base, path: self.path.index(at) }
    }

    fn field(&self) -> String {
        match (self.base, self.path.to_string()) {
            ("", path) if path.is_empty() => NO_FIELD.to_owned(),
            ("", path) => path,
            (base, path) if path.is_empty() => base.to_owned(),
            (base, path) => format!("{base}.{path}"),
        }
    }

    /// An error of the value at this location.
    pub(super) fn error(&self, kind: FieldErrorKind, value: Option<String>, detail: String) -> FieldError {
        FieldError { kind, field: self.field(), value, detail }
    }

    /// An error whose text begins with the path.
    pub(super) fn invalid(&self, value: String, text: &str) -> FieldError {
        self.error(FieldErrorKind::Invalid, Some(value), format!("{} in body {text}", self.path))
    }

    /// An error of the whole check, without a path.
    pub(super) fn unplaced(&self, detail: String) -> FieldError {
        let field = if self.base.is_empty() { NO_FIELD } else { self.base };
        let value = Some("\"\"".to_owned());
        FieldError { kind: FieldErrorKind::Invalid, field: field.to_owned(), value, detail }
    }
}

/// Formats a value for errors.
pub(in crate::structural) fn shown(value: &Value) -> String {
    match value.as_f64().filter(|_| value.is_f64()) {
        Some(number) => super::number::in_go(number),
        None => value.to_string(),
    }
}

/// Quotes a text like Go, whose escapes for unprintable characters differ from Rust's.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let code = u32::from(c);
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            _ if c.is_ascii_control() => out.push_str(&format!("\\x{code:02x}")),
            _ if c != ' ' && (c.is_control() || c.is_whitespace()) => out.push_str(&format!("\\u{code:04x}")),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_like_go() {
        let text = "a \"b\" \\ ' \n\u{0}\u{7f}\u{85}\u{a0}e\u{301}\u{1f600}";
        assert_eq!(quoted(text), "\"a \\\"b\\\" \\\\ ' \\n\\x00\\x7f\\u0085\\u00a0e\u{301}\u{1f600}\"");
    }

    #[test]
    fn doubles_are_formatted_like_go() {
        let shown = |number: f64| shown(&Value::from(number));
        assert_eq!([2.0, 1.5, 1e20, 0.0001].map(shown), ["2", "1.5", "100000000000000000000", "0.0001"]);
        assert_eq!([1e21, 1.5e-7, -1e300].map(shown), ["1e+21", "1.5e-07", "-1e+300"]);
    }
}

//! Validation errors with the paths and texts of Kubernetes: [`Path`], [`FieldError`], [`ErrorList`]. The
//! texts are an interface: clients print them and tests compare them. `status` turns a list into a response.

use crate::limits::{ERROR_BYTES_MAX, ERRORS_MAX};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Path such as `spec.containers[0].env[1].name`, as a chain of borrowed steps. Walking an object allocates
/// nothing; only errors build the text.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// Path of the object itself; its children have no leading dot.
    pub const ROOT: Path<'static> = Path { parent: None, step: PathStep::Name("") };

    /// A path of one or more dotted names from the object down.
    pub const fn new(name: &'a str) -> Self {
        Path { parent: None, step: PathStep::Name(name) }
    }

    /// Path of a member; `name` may contain dots for nested members.
    pub const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: PathStep::Name(name) }
    }

    /// Path of a list item.
    pub const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: PathStep::Index(index) }
    }

    /// Path of a map entry, formatted as `[key]`.
    pub const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: PathStep::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rooted = match self.parent {
            Some(parent) => {
                parent.fmt(f)?;
                !matches!(parent, Path { parent: None, step: PathStep::Name("") })
            }
            None => false,
        };
        match self.step {
            PathStep::Name(name) if rooted => write!(f, ".{name}"),
            PathStep::Name(name) => f.write_str(name),
            PathStep::Index(index) => write!(f, "[{index}]"),
            PathStep::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// Type of a field error, as causes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// A required value is missing.
    Required,
    /// A value breaks a rule.
    Invalid,
    /// A value is not one of the supported ones.
    NotSupported,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// A value must not be set under these circumstances.
    Forbidden,
    /// A text is longer than allowed.
    TooLong,
    /// A list has more items than allowed.
    TooMany,
    /// A value has the wrong type.
    TypeInvalid,
    /// A value refers to something that does not exist.
    NotFound,
    /// An internal error.
    Internal,
}

impl FieldErrorKind {
    /// The `reason` of the cause in a Status.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// Validation error of one field. `Display` is `path: body`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Type of the error.
    pub kind: FieldErrorKind,
    /// Text of the path.
    pub field: String,
    /// Invalid value as JSON, for types that show it.
    pub value: Option<String>,
    /// Detail of the error; may be empty.
    pub detail: String,
}

impl FieldError {
    /// The text without the path: `Invalid value: -1: must be …`.
    pub fn body(&self) -> String {
        let mut body = self.kind.title().to_owned();
        for part in self.value.iter().chain((!self.detail.is_empty()).then_some(&self.detail)) {
            body.push_str(": ");
            body.push_str(part);
        }
        body
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// Validation errors of an object, in the order found; empty for a valid object. Beyond [`ERRORS_MAX`] errors
/// or [`ERROR_BYTES_MAX`] of text the list is full, and further errors are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorList {
    errors: Vec<FieldError>,
    /// Total length of the texts in bytes.
    bytes: usize,
}

impl ErrorList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the object is valid.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Number of errors.
    pub fn len(&self) -> usize {
        self.errors.len()
    }

    /// The errors, in the order found.
    pub fn iter(&self) -> std::slice::Iter<'_, FieldError> {
        self.errors.iter()
    }

    /// Whether further errors are dropped, so that validation can stop.
    pub fn is_full(&self) -> bool {
        self.errors.len() >= ERRORS_MAX || self.bytes >= ERROR_BYTES_MAX
    }

    /// Appends all errors of another list.
    pub fn extend(&mut self, other: ErrorList) {
        other.errors.into_iter().for_each(|error| self.push(error));
    }

    /// Keeps the errors that satisfy the test, in order. A full list stays unchanged, since its dropped
    /// errors cannot be tested.
    pub(crate) fn retain(&mut self, test: impl FnMut(&FieldError) -> bool) {
        if !self.is_full() {
            self.errors.retain(test);
        }
    }

    /// Replaces the errors for which the function has another one.
    pub(crate) fn replace(&mut self, other: impl Fn(&FieldError) -> Option<FieldError>) {
        for error in &mut self.errors {
            if let Some(other) = other(error) {
                *error = other;
            }
        }
    }

    /// Replaces values that are shown as `null`, where the function has another text for the error's path.
    pub(crate) fn replace_nulls(&mut self, value_at: impl Fn(&str) -> Option<String>) {
        for error in self.errors.iter_mut().filter(|error| error.value.as_deref() == Some("null")) {
            if let Some(value) = value_at(&error.field) {
                error.value = Some(value);
            }
        }
    }

    /// Appends one error.
    pub fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            let FieldError { kind: _, field, value, detail } = &error;
            self.bytes += field.len() + value.as_ref().map_or(0, String::len) + detail.len();
            self.errors.push(error);
        }
    }

    /// Appends an error. Its value is formatted only if the list is not full, since values can be as large as
    /// objects.
    fn add(
        &mut self,
        kind: FieldErrorKind,
        path: &Path<'_>,
        value: impl FnOnce() -> Option<String>,
        detail: impl Into<String>,
    ) {
        if !self.is_full() {
            self.push(FieldError { kind, field: path.to_string(), value: value(), detail: detail.into() });
        }
    }

    /// Appends an error for a missing value; `detail` may be empty.
    pub fn required(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(FieldErrorKind::Required, path, || None, detail);
    }

    /// Appends an error for a value that breaks a rule.
    pub fn invalid(&mut self, path: &Path<'_>, value: &(impl Serialize + ?Sized), detail: impl Into<String>) {
        self.add(FieldErrorKind::Invalid, path, || Some(json(value)), detail);
    }

    /// Appends an error for a value of the wrong type.
    pub fn type_invalid(
        &mut self,
        path: &Path<'_>,
        value: &(impl Serialize + ?Sized),
        detail: impl Into<String>,
    ) {
        self.add(FieldErrorKind::TypeInvalid, path, || Some(json(value)), detail);
    }

    /// Appends an error for an unsupported value; the supported values are sorted.
    pub fn not_supported(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let mut supported: Vec<String> = supported.iter().map(|s| json(*s)).collect();
        supported.sort();
        let detail = format!("supported values: {}", supported.join(", "));
        self.add(FieldErrorKind::NotSupported, path, || Some(json(value)), detail);
    }

    /// Appends an error for an unsupported value; the supported values keep their order, since some rules
    /// list them by meaning.
    pub fn not_supported_as_listed(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|s| json(*s)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.add(FieldErrorKind::NotSupported, path, || Some(json(value)), detail);
    }

    /// Appends an error for a value that breaks a rule, without the value.
    pub fn invalid_omitted(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(FieldErrorKind::Invalid, path, || None, detail);
    }

    /// Appends an error like [`Self::not_supported_as_listed`] with an already formatted value.
    pub fn not_supported_raw(&mut self, path: &Path<'_>, value: String, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|s| json(*s)).collect();
        let detail = format!("supported values: {}", supported.join(", "));
        self.add(FieldErrorKind::NotSupported, path, || Some(value), detail);
    }

    /// Appends an error for a duplicate with an already formatted value.
    pub fn duplicate_raw(&mut self, path: &Path<'_>, value: String) {
        self.add(FieldErrorKind::Duplicate, path, || Some(value), "");
    }

    /// Appends an error for a value that breaks a rule, with an already formatted value.
    pub fn invalid_raw(&mut self, path: &Path<'_>, value: impl Into<String>, detail: impl Into<String>) {
        self.add(FieldErrorKind::Invalid, path, || Some(value.into()), detail);
    }

    /// Appends an error for a duplicate value.
    pub fn duplicate(&mut self, path: &Path<'_>, value: &(impl Serialize + ?Sized)) {
        self.add(FieldErrorKind::Duplicate, path, || Some(json(value)), "");
    }

    /// Appends an error for a value that must not be set.
    pub fn forbidden(&mut self, path: &Path<'_>, detail: impl Into<String>) {
        self.add(FieldErrorKind::Forbidden, path, || None, detail);
    }

    /// Appends an error for a text of more than `max` bytes.
    pub fn too_long(&mut self, path: &Path<'_>, max: usize) {
        self.add(FieldErrorKind::TooLong, path, || None, format!("may not be more than {max} bytes"));
    }

    /// Appends an error for a list of `actual` items where `max` are allowed.
    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        self.add(FieldErrorKind::TooMany, path, || Some(actual.to_string()), detail);
    }

    /// Appends an error for a reference to something that does not exist.
    pub fn not_found(&mut self, path: &Path<'_>, value: &(impl Serialize + ?Sized)) {
        self.add(FieldErrorKind::NotFound, path, || Some(json(value)), "");
    }

    /// Appends an error like [`Self::not_found`] with a list of what exists.
    pub fn not_found_in(
        &mut self,
        path: &Path<'_>,
        value: &(impl Serialize + ?Sized),
        detail: impl Into<String>,
    ) {
        self.add(FieldErrorKind::NotFound, path, || Some(json(value)), detail);
    }

    /// All errors as one text: a single error, or `[a, b]` without duplicates.
    pub fn aggregate(&self) -> String {
        let mut seen = BTreeSet::new();
        let texts = self.errors.iter().map(FieldError::to_string);
        let texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
        match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

impl IntoIterator for ErrorList {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    crate::json::to_string(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_formatted_like_kubernetes() {
        let spec = Path::new("spec");
        let item = spec.child("containers").index(0).child("env").index(1).to_string();
        assert_eq!(item, "spec.containers[0].env[1]");
        let key = Path::ROOT.child("metadata").child("labels").key("a/b").to_string();
        assert_eq!(key, "metadata.labels[a/b]");
        assert_eq!(Path::ROOT.index(2).to_string(), "[2]");
    }

    #[test]
    fn full_error_lists_drop_further_errors() {
        let root = Path::ROOT;
        let mut errors = ErrorList::new();
        (0..2 * ERRORS_MAX).for_each(|_| errors.required(&root.child("a"), ""));
        assert_eq!((errors.len(), errors.is_full()), (ERRORS_MAX, true));
        errors.retain(|_| false);
        assert_eq!(errors.len(), ERRORS_MAX, "errors that were dropped may be ones that stay");
        let mut large = ErrorList::new();
        (0..5).for_each(|_| large.invalid(&root.child("a"), &"x".repeat(ERROR_BYTES_MAX / 2), ""));
        assert_eq!((large.len(), large.is_full()), (2, true));
    }

    #[test]
    fn bodies_and_aggregates_match_kubernetes() {
        let (mut errors, root) = (ErrorList::new(), Path::ROOT);
        errors.invalid(&root.child("spec.replicas"), &-1, "must be greater than or equal to 0");
        assert_eq!(
            errors.aggregate(),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        errors.required(&root.child("a"), "");
        errors.required(&root.child("a"), "");
        errors.required(&root.child("b"), "why");
        errors.not_supported(&root.child("c"), "x", &["b", "a"]);
        errors.duplicate(&root.child("d"), "x");
        errors.too_long(&root.child("e"), 5);
        errors.too_many(&root.child("f"), 7, 5);
        errors.not_found(&root.child("g"), "x");
        errors.forbidden(&root.child("h"), "no");
        let tail = r#", a: Required value, b: Required value: why, c: Unsupported value: "x": supported values: "a", "b", d: Duplicate value: "x", e: Too long: may not be more than 5 bytes, f: Too many: 7: must have at most 5 items, g: Not found: "x", h: Forbidden: no]"#;
        assert!(errors.aggregate().ends_with(tail), "{}", errors.aggregate());
    }
}

//! [`Fields`]: the strict reader of a configuration file. It finds every unknown member and every value of a wrong type, and collects the
//! errors of all rules with kube-scheduler's paths and texts. Plugins read their arguments with it.

use kstore_api::field::{ErrorList, FieldError, FieldErrorKind, Path};
use serde_json::{Map, Value};

/// What is wrong with a document, by the step in which kube-scheduler finds it.
#[derive(Debug, Default)]
pub struct Problems {
    /// Unknown and repeated members.
    pub(crate) strict: Vec<String>,
    /// Values of a wrong type.
    pub(crate) types: Vec<String>,
    /// Values that break a rule.
    pub(crate) invalid: ErrorList,
    /// Reasons why a plugin cannot start with its arguments.
    pub(crate) start: Vec<String>,
    /// Accepted settings without an effect here.
    pub(crate) warnings: Vec<String>,
}

impl Problems {
    /// The decoding errors as one text, as kube-scheduler prints them.
    pub(crate) fn decoding_error(&self) -> Option<String> {
        match &self.types[..] {
            [] if self.strict.is_empty() => None,
            [] => Some(format!("strict decoding error: {}", self.strict.join(", "))),
            types => Some(types.join(", ")),
        }
    }
}

/// The members of one object of a document that were not read yet. [`finish`](Self::finish) reports the unknown ones.
#[derive(Debug)]
pub struct Fields<'p> {
    /// The path of the object from the root of the file.
    path: String,
    /// The length of the part of `path` that decoding errors leave out: arguments are a document of their own.
    outside: usize,
    members: Map<String, Value>,
    problems: &'p mut Problems,
}

impl<'p> Fields<'p> {
    /// The members of `value` at `path`; null is an empty object. A value of another type is reported and read as one.
    pub(crate) fn of(value: Value, path: &str, problems: &'p mut Problems) -> Self {
        Self::at(value, path.to_owned(), 0, problems)
    }

    /// The members of a document of its own that is at `path` of the file.
    pub(crate) fn of_document(value: Value, path: &str, problems: &'p mut Problems) -> Self {
        Self::at(value, path.to_owned(), path.len(), problems)
    }

    fn at(value: Value, path: String, outside: usize, problems: &'p mut Problems) -> Self {
        let members = match value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => {
                let place = path[outside..].trim_start_matches('.');
                problems.types.push(wrong_type(place, "an object", &other));
                Map::new()
            }
        };
        Self { path, outside, members, problems }
    }

    /// The path of a member from the root of the file.
    pub fn path(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Where the object begins, in the path of its document.
    fn place(&self, name: &str) -> String {
        join(self.path[self.outside..].trim_start_matches('.'), name)
    }

    /// Whether a member of this name was not read yet.
    pub fn has(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether no member is left.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member's value; `None` if it is absent or null.
    pub fn value(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    fn typed<T>(&mut self, name: &str, expected: &str, read: impl FnOnce(&Value) -> Option<T>) -> Option<T> {
        let value = self.value(name)?;
        let read = read(&value);
        if read.is_none() {
            let error = wrong_type(&self.place(name), expected, &value);
            self.problems.types.push(error);
        }
        read
    }

    /// The text of a member.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.typed(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// The truth value of a member.
    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        self.typed(name, "a boolean", Value::as_bool)
    }

    /// The integer of a member, of 32 bits.
    pub fn integer(&mut self, name: &str) -> Option<i64> {
        self.typed(name, "an integer of 32 bits", |value| i32::try_from(value.as_i64()?).ok().map(i64::from))
    }

    /// The number of a member.
    pub fn number(&mut self, name: &str) -> Option<f64> {
        self.typed(name, "a number", Value::as_f64)
    }

    /// The nanoseconds of a member that is a duration in Go's form, such as `10s`.
    pub fn duration(&mut self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        match kstore_go_duration::parse(&text) {
            Ok(nanos) => Some(nanos),
            Err(error) => {
                let place = self.place(name);
                self.problems.types.push(format!("{place}: {error}"));
                None
            }
        }
    }

    /// The texts of a member that is a list of them.
    pub fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        self.typed(name, "a list of strings", |value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    /// What `read` makes of a member that is an object; its unknown members are reported afterwards. `None` if the member is absent.
    pub fn object<T>(&mut self, name: &str, read: impl FnOnce(&mut Fields<'_>) -> T) -> Option<T> {
        let value = self.value(name)?;
        let path = self.path(name);
        let mut fields = Fields::at(value, path, self.outside, self.problems);
        let read = read(&mut fields);
        fields.finish();
        Some(read)
    }

    /// What `read` makes of each object of a list; unknown members are reported afterwards. `None` if the member is absent.
    pub fn objects<T>(&mut self, name: &str, mut read: impl FnMut(&mut Fields<'_>) -> T) -> Option<Vec<T>> {
        let items = self.typed(name, "a list", |value| value.as_array().cloned())?;
        let list = self.path(name);
        let mut all = Vec::with_capacity(items.len());
        for (index, item) in items.into_iter().enumerate() {
            let mut fields = Fields::at(item, format!("{list}[{index}]"), self.outside, self.problems);
            all.push(read(&mut fields));
            fields.finish();
        }
        Some(all)
    }

    /// Reports the members that were not read as unknown.
    pub fn finish(&mut self) {
        for (name, _) in std::mem::take(&mut self.members) {
            let place = self.place(&name);
            self.problems.strict.push(format!("unknown field \"{place}\""));
        }
    }

    /// Reports an unknown member, or another offence against strict decoding, of a value that was read whole.
    pub(crate) fn strict(&mut self, text: String) {
        self.problems.strict.push(text);
    }

    /// Reports a value that cannot be decoded. An empty name is the document itself.
    pub(crate) fn undecodable(&mut self, name: &str, text: &str) {
        let place = self.place(name);
        let separator = if place.is_empty() { "" } else { ": " };
        self.problems.types.push(format!("{place}{separator}{text}"));
    }

    /// Reports that the member's value breaks a rule. `name` may be empty, for the object itself, or go deeper.
    pub fn invalid(&mut self, name: &str, value: &(impl serde::Serialize + ?Sized), text: impl Into<String>) {
        let path = self.path(name);
        self.problems.invalid.invalid(&Path::new(&path), value, text);
    }

    /// Reports that the member is required.
    pub fn required(&mut self, name: &str, text: &str) {
        let path = self.path(name);
        self.problems.invalid.required(&Path::new(&path), text);
    }

    /// Reports that the member must not be there.
    pub fn forbidden(&mut self, name: &str, text: &str) {
        let path = self.path(name);
        self.problems.invalid.forbidden(&Path::new(&path), text);
    }

    /// Reports that the member repeats a value.
    pub fn duplicate(&mut self, name: &str, value: &str) {
        let path = self.path(name);
        self.problems.invalid.duplicate(&Path::new(&path), value);
    }

    /// Reports that the member repeats a value that kube-scheduler prints as an object without members.
    pub(crate) fn duplicate_object(&mut self, name: &str) {
        let path = self.path(name);
        self.problems.invalid.duplicate_raw(&Path::new(&path), "{}".to_owned());
    }

    /// Reports that the member's value is none of the supported ones, which the text lists in this order.
    pub fn not_supported(&mut self, name: &str, value: &str, supported: &[&str]) {
        let path = self.path(name);
        self.problems.invalid.not_supported_as_listed(&Path::new(&path), value, supported);
    }

    /// Reports an error that kube-scheduler finds only while it starts the plugin.
    pub fn fails(&mut self, error: FieldError) {
        self.problems.start.push(error.to_string());
    }

    /// Reports an error of a value that kube-scheduler finds only while it starts the plugin.
    pub fn fails_invalid(&mut self, name: &str, value: &Value, text: impl Into<String>) {
        let error = FieldError {
            kind: FieldErrorKind::Invalid,
            field: self.path(name)[self.outside..].trim_start_matches('.').to_owned(),
            value: Some(value.to_string()),
            detail: text.into(),
        };
        self.fails(error);
    }

    /// Reports an error without a value that kube-scheduler finds only while it starts the plugin.
    pub fn fails_without_value(&mut self, kind: FieldErrorKind, name: &str, text: &str) {
        let field = self.path(name)[self.outside..].trim_start_matches('.').to_owned();
        self.fails(FieldError { kind, field, value: None, detail: text.to_owned() });
    }

    /// Reports that an accepted setting has no effect here, and why.
    pub fn warn(&mut self, name: &str, why: &str) {
        let path = self.path(name);
        self.problems.warnings.push(format!("{path}: {why}"));
    }
}

fn join(path: &str, name: &str) -> String {
    match (path.is_empty(), name.is_empty()) {
        (true, _) => name.to_owned(),
        (_, true) => path.to_owned(),
        _ if name.starts_with('[') => format!("{path}{name}"),
        _ => format!("{path}.{name}"),
    }
}

fn wrong_type(place: &str, expected: &str, value: &Value) -> String {
    let place = if place.is_empty() { "the document" } else { place };
    format!("{place}: expected {expected}, found {value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_members_and_wrong_types_are_reported_with_their_paths() {
        let mut problems = Problems::default();
        let value = json!({
            "a": "x", "n": "many", "more": 1, "inner": { "odd": 1 }, "list": [{ "b": true }, { "c": 1 }], "wait": "5x",
        });
        let mut fields = Fields::of(value, "", &mut problems);
        assert_eq!(fields.text("a").as_deref(), Some("x"));
        assert_eq!((fields.integer("n"), fields.integer("absent")), (None, None));
        assert_eq!(fields.object("inner", |inner| inner.has("odd")), Some(true));
        assert_eq!(fields.objects("list", |item| item.boolean("b")), Some(vec![Some(true), None]));
        assert_eq!(fields.duration("wait"), None);
        fields.finish();
        let unknown = ["inner.odd", "list[1].c", "more"].map(|name| format!("unknown field \"{name}\""));
        assert_eq!(problems.strict, unknown);
        assert_eq!(problems.types[0], "n: expected an integer of 32 bits, found \"many\"");
        assert!(problems.types[1].starts_with("wait: "), "{:?}", problems.types);
    }

    #[test]
    fn arguments_are_a_document_of_their_own_for_decoding_and_a_part_of_the_file_for_rules() {
        let mut problems = Problems::default();
        let mut args = Fields::of_document(json!({ "odd": 1, "w": 200 }), "profiles[0].args", &mut problems);
        let weight = args.integer("w").unwrap();
        args.invalid("w", &weight, "too large");
        args.fails_invalid("w", &json!(weight), "too heavy");
        args.finish();
        assert_eq!(
            problems.decoding_error().as_deref(),
            Some("strict decoding error: unknown field \"odd\"")
        );
        assert_eq!(
            problems.invalid.iter().next().unwrap().to_string(),
            "profiles[0].args.w: Invalid value: 200: too large"
        );
        assert_eq!(problems.start, ["w: Invalid value: 200: too heavy"]);
    }
}

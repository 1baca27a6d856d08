//! Field selectors: the text form of `?fieldSelector=`, the selectable fields of each kind, and matching.
//! Field values are strings computed from the object; custom resources declare their own paths.

use crate::meta;
use crate::resource::{FieldRule, Labels, Resource};
use crate::version::Minor;
use serde_json::Value;
use std::borrow::Cow;

/// One term of a field selector: a field equals, or differs from, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field's label, such as `spec.nodeName`.
    pub field: String,
    /// Whether the field must differ from the value.
    pub negated: bool,
    /// The value.
    pub value: String,
}

/// Field selector: a conjunction of terms. Without terms it matches every object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

/// Error of a field selector that is malformed or names a field that is not selectable. The text is the
/// message of the 400 response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl Selector {
    /// The selector that matches every object.
    pub const fn everything() -> Self {
        Selector { terms: Vec::new() }
    }

    /// The selector for one field with one value.
    pub fn one(field: &str, value: &str) -> Self {
        Selector { terms: vec![Term { field: field.to_owned(), negated: false, value: value.to_owned() }] }
    }

    /// Parses the text form. [`Selector::check`] checks whether the fields exist.
    ///
    /// # Errors
    /// The text is malformed; the message is that of Kubernetes.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((field, negated, value)) = split_term(part) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            terms.push(Term { field: field.to_owned(), negated, value: unescape(value)? });
        }
        Ok(Selector { terms })
    }

    /// The terms, in the order given.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether every object matches.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value that a term demands of a field, if any. A list by name or node then reads fewer objects.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| !t.negated && t.field == field).map(|t| t.value.as_str())
    }

    /// Splits the terms into those about fields for which `first` holds, and the others.
    pub fn partition(self, first: impl Fn(&str) -> bool) -> (Self, Self) {
        let (matching, others) = self.terms.into_iter().partition(|term| first(&term.field));
        (Selector { terms: matching }, Selector { terms: others })
    }

    /// Checks that all fields are selectable for the kind. Renames deprecated labels, and labels of other
    /// versions, to the labels in [`own_labels`].
    ///
    /// # Errors
    /// The first field that is not selectable; the message is that of Kubernetes.
    pub fn check(mut self, resource: &Resource) -> Result<Self, SelectorError> {
        for term in &mut self.terms {
            let Some(label) = stored_label(resource, &term.field) else {
                return Err(SelectorError((resource.rules.fields.refusal)(&term.field)));
            };
            term.field = label.to_owned();
        }
        Ok(self)
    }

    /// Whether an object satisfies all terms. A field that the kind does not have counts as empty.
    pub fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let value = field_of(resource, &term.field, object).unwrap_or_default();
            (value == term.value) != term.negated
        })
    }

    /// Whether field values satisfy all terms. `field` returns the value of a label, empty if absent.
    pub fn matches_fields<'f>(&self, field: impl Fn(&str) -> &'f str) -> bool {
        self.terms.iter().all(|term| (field(&term.field) == term.value) != term.negated)
    }
}

/// Splits at commas without a backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Splits a term at its first operator into field, negation and raw value.
fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    for (i, _) in part.char_indices() {
        for (sign, negated) in [("!=", true), ("==", false), ("=", false)] {
            if let Some(value) = part[i..].strip_prefix(sign) {
                return Some((&part[..i], negated, value));
            }
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let rest = other.map(String::from).unwrap_or_default();
                    let why = format!("invalid field selector: invalid escape sequence: \\{rest}");
                    return Err(SelectorError(why));
                }
            },
            ',' | '=' => {
                let why = format!("invalid field selector: unescaped character in value: {c}");
                return Err(SelectorError(why));
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

/// Selectable fields of a kind besides name and namespace, sorted by label.
fn own_fields(resource: &Resource) -> &'static [(&'static str, FieldRule)] {
    resource.rules.fields.values
}

/// Field label of an object's name.
pub const NAME: &str = "metadata.name";
/// Field label of an object's namespace.
pub const NAMESPACE: &str = "metadata.namespace";

/// Fields that older versions of Kubernetes do not select by: group and plural of the kind, label, first version.
const NEWER: &[(&str, &str, &str, Minor)] =
    &[("resource.k8s.io", "resourceslices", "spec.pool.name", Minor::V37)];

/// Whether the resource's version of Kubernetes does not select by this field yet.
fn is_newer(resource: &Resource, field: &str) -> bool {
    let is_meant = |&(group, plural, label, first): &(&str, &str, &str, Minor)| {
        label == field && resource.minor < first && resource.is(group, plural)
    };
    NEWER.iter().any(is_meant)
}

/// Label of a field in the storage version of a kind; `None` if the field is not selectable.
fn stored_label<'f>(resource: &Resource, field: &'f str) -> Option<&'f str> {
    if matches!(field, NAME | NAMESPACE) {
        return Some(field);
    }
    if is_newer(resource, field) {
        return None;
    }
    let (labels, is_own) = match resource.rules.fields.labels {
        Labels::Also(labels) => (labels, own_fields(resource).iter().any(|(own, _)| *own == field)),
        Labels::Only(labels) => (labels, false),
    };
    let stands_for = labels.iter().find(|(label, _)| *label == field).map(|(_, stored)| *stored);
    stands_for.or(is_own.then_some(field))
}

/// Whether the field is selectable for a kind.
pub fn is_selectable(resource: &Resource, field: &str) -> bool {
    stored_label(resource, field).is_some()
}

/// Value of one field of an object; `None` if the kind has no such field.
pub fn field_of<'o>(resource: &Resource, field: &str, object: &'o Value) -> Option<Cow<'o, str>> {
    match field {
        NAME => Some(meta::name(object).into()),
        NAMESPACE => Some(meta::namespace(object).into()),
        _ => own_fields(resource).iter().find(|(label, _)| *label == field).map(|(_, read)| read.of(object)),
    }
}

/// Labels of a kind's selectable fields besides name and namespace, sorted.
pub fn own_labels(resource: &Resource) -> impl ExactSizeIterator<Item = &'static str> + use<> {
    own_fields(resource).iter().map(|(label, _)| *label)
}

/// Index of a label in [`own_labels`].
pub fn position(resource: &Resource, label: &str) -> Option<usize> {
    own_fields(resource).binary_search_by(|(own, _)| (*own).cmp(label)).ok()
}

/// Values of the fields in [`own_labels`], in that order.
pub fn own_values<'o>(
    resource: &Resource,
    object: &'o Value,
) -> impl Iterator<Item = Cow<'o, str>> + use<'o> {
    own_fields(resource).iter().map(|(_, read)| read.of(object))
}

/// Paths that [`own_values`] reads. A caller that needs only these values can skip the rest of the object.
pub fn own_paths(resource: &Resource) -> impl Iterator<Item = &'static [&'static str]> + use<> {
    own_fields(resource).iter().flat_map(|(_, read)| match read {
        FieldRule::At(path) | FieldRule::Or(path, _) => vec![*path],
        FieldRule::Either(path, other) => vec![*path, *other],
        FieldRule::By(_, paths) => paths.to_vec(),
    })
}

/// Addresses of a pod.
pub(crate) fn pod_ips(pod: &Value) -> Cow<'_, str> {
    let ips = pod["status"]["podIPs"].as_array().into_iter().flatten().filter_map(|ip| ip["ip"].as_str());
    ips.collect::<Vec<_>>().join(",").into()
}

/// Component that reported an event.
pub(crate) fn event_source(event: &Value) -> Cow<'_, str> {
    let component = event["source"]["component"].as_str().unwrap_or_default();
    if component.is_empty() { event["reportingComponent"].as_str().unwrap_or_default() } else { component }
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kinds, OptIn, lookup};
    use serde_json::json;

    fn pods() -> &'static Resource {
        lookup("", "v1", "pods").unwrap()
    }

    /// Whether the cached field values of an object satisfy a selector.
    fn matches_cached(selector: &Selector, resource: &Resource, object: &Value) -> bool {
        let values: Vec<_> = own_values(resource, object).collect();
        selector.matches_fields(|label| match label {
            NAME => meta::name(object),
            NAMESPACE => meta::namespace(object),
            _ => position(resource, label).map_or("", |at| &values[at]),
        })
    }

    #[test]
    fn field_selectors_are_parsed_with_escapes() {
        let selector = Selector::parse("a=b,c!=d\\,e,,f==g\\=h").unwrap();
        let terms: Vec<_> = selector.terms().iter().map(|t| (&*t.field, t.negated, &*t.value)).collect();
        assert_eq!(terms, [("a", false, "b"), ("c", true, "d,e"), ("f", false, "g=h")]);
        assert!(Selector::parse("").unwrap().is_everything());
        let message = |text: &str| Selector::parse(text).unwrap_err().0;
        assert_eq!(message("a=b,c"), "invalid selector: 'a=b,c'; can't understand 'c'");
        assert_eq!(message("a=b=c"), "invalid field selector: unescaped character in value: =");
        assert_eq!(message("a=b\\x"), "invalid field selector: invalid escape sequence: \\x");
    }

    #[test]
    fn unknown_fields_are_refused_with_the_messages_of_kubernetes() {
        let message = |group: &str, plural: &str, text: &str| {
            Selector::parse(text).unwrap().check(lookup(group, "v1", plural).unwrap()).unwrap_err().0
        };
        assert_eq!(message("", "pods", "spec.foo=1"), "field label not supported: spec.foo");
        assert_eq!(message("batch", "jobs", "x=1"), "field label \"x\" not supported for Job");
        assert_eq!(
            message("apps", "deployments", "spec.x=1"),
            "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn pods_are_selectable_by_node_phase_and_name() {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"}});
        for (text, want) in [
            ("spec.nodeName=n1", true),
            ("spec.host=n1", true),
            ("spec.nodeName!=n1", false),
            ("spec.nodeName=", false),
            ("status.phase=Running,metadata.name=p", true),
            ("spec.hostNetwork=false", true),
            ("status.podIP=", true),
        ] {
            let selector = Selector::parse(text).unwrap().check(pods()).unwrap();
            assert_eq!(selector.matches(pods(), &pod), want, "{text}");
            assert_eq!(matches_cached(&selector, pods(), &pod), want, "{text}");
        }
    }

    #[test]
    fn events_are_selectable_by_their_involved_object() {
        let events = lookup("", "v1", "events").unwrap();
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n"},
            "reportingComponent": "kubelet", "type": "Normal"});
        let text = "involvedObject.kind=Node,involvedObject.namespace=,involvedObject.name=n,source=kubelet,type!=Warning";
        assert!(Selector::parse(text).unwrap().check(events).unwrap().matches(events, &event));
        let new = lookup("events.k8s.io", "v1", "events").unwrap();
        let text = "regarding.kind=Node,reportingController=kubelet";
        let selector = Selector::parse(text).unwrap().check(new).unwrap();
        assert!(matches_cached(&selector, events, &event), "one selector for both versions");
        let turned = json!({"regarding": {"kind": "Node"}, "reportingController": "kubelet"});
        assert!(selector.matches(new, &turned));
        assert!(Selector::parse("involvedObject.kind=Node").unwrap().check(new).is_err());
        assert_eq!(Selector::parse("a=b,c=d").unwrap().required("c"), Some("d"));
    }

    #[test]
    fn slices_are_selected_by_their_pool_since_1_37() {
        for minor in Minor::SERVED.into_iter().filter(|minor| *minor >= Minor::V34) {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            let row = kinds.lookup("resource.k8s.io", "v1", "resourceslices").unwrap();
            assert_eq!(is_selectable(row, "spec.pool.name"), minor >= Minor::V37, "{minor}");
            assert!(is_selectable(row, "spec.nodeName"), "{minor}");
            let selector = Selector::parse("spec.pool.name=a").unwrap();
            let of = |pool: &str| json!({"metadata": {"name": "s"}, "spec": {"pool": {"name": pool}}});
            assert!(selector.matches(row, &of("a")) && !selector.matches(row, &of("b")));
        }
    }

    #[test]
    fn selectable_fields_are_sorted_for_every_kind() {
        for resource in crate::kind::every() {
            assert!(own_labels(resource).is_sorted(), "{}", resource.plural);
        }
    }
}

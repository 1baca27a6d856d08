//! Field selectors: the text form of `?fieldSelector=`, which fields a kind can be selected by, and matching. Fields are strings
//! computed from the object; custom resources add their own list of paths.

use std::borrow::Cow;

use serde_json::Value;

use crate::kind::Resource;
use crate::meta;

/// One term: a field is, or is not, a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field's label, such as `spec.nodeName`.
    pub field: String,
    /// Whether the field must differ.
    pub negated: bool,
    /// The value.
    pub value: String,
}

/// A conjunction of terms; none matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    terms: Vec<Term>,
}

/// A selector that is broken or names a field that a kind cannot be selected by. The text is the answer's message (400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

impl Selector {
    /// Matches every object.
    pub const fn everything() -> Self {
        Selector { terms: Vec::new() }
    }

    /// The selector of one field with one value.
    pub fn one(field: &str, value: &str) -> Self {
        Selector { terms: vec![Term { field: field.to_owned(), negated: false, value: value.to_owned() }] }
    }

    /// Reads the text form. Whether the fields exist is another question: [`Selector::check`].
    ///
    /// # Errors
    /// With the text Kubernetes gives.
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

    /// The value a field must have, if a term says so: lets a list by name or node read less.
    pub fn required(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|t| !t.negated && t.field == field).map(|t| t.value.as_str())
    }

    /// The terms about fields for which `first` holds, and the others.
    pub fn partition(self, first: impl Fn(&str) -> bool) -> (Self, Self) {
        let (matching, others) = self.terms.into_iter().partition(|term| first(&term.field));
        (Selector { terms: matching }, Selector { terms: others })
    }

    /// Checks that a kind can be selected by all fields, and replaces old labels of fields, and those of a version that is not
    /// stored, by the ones [`own_labels`] has.
    ///
    /// # Errors
    /// With the text Kubernetes gives, for the first unknown field.
    pub fn check(mut self, resource: &Resource) -> Result<Self, SelectorError> {
        for term in &mut self.terms {
            let Some(label) = stored_label(resource, &term.field) else {
                return Err(unknown_field(resource, &term.field));
            };
            term.field = label.into_owned();
        }
        Ok(self)
    }

    /// Whether an object satisfies all terms. Fields the kind does not have count as empty.
    pub fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let value = field_of(resource, &term.field, object).unwrap_or_default();
            (value == term.value) != term.negated
        })
    }

    /// Whether fields satisfy all terms; `field` gives the value of a label, empty if there is none.
    pub fn matches_fields<'f>(&self, field: impl Fn(&str) -> &'f str) -> bool {
        self.terms.iter().all(|term| (field(&term.field) == term.value) != term.negated)
    }
}

/// Splits at commas that no backslash precedes.
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

/// Field, whether negated, raw value; at the first operator.
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

/// How a field is read from an object.
#[derive(Debug)]
pub(crate) enum Read {
    /// The string, number or boolean at a path.
    At(&'static [&'static str]),
    /// As `At`, where an absent value counts as this text.
    Or(&'static [&'static str], &'static str),
    /// As `At`, at the first of two paths where there is something: objects may come in their stored version.
    Either(&'static [&'static str], &'static [&'static str]),
    /// Something computed from what is at some paths.
    By(for<'o> fn(&'o Value) -> Cow<'o, str>, &'static [&'static [&'static str]]),
}

/// How a field of a kind's row is read.
pub(crate) type FieldRead = Read;

const POD: &[(&str, Read)] = &[
    ("spec.hostNetwork", Read::Or(&["spec", "hostNetwork"], "false")),
    ("spec.nodeName", Read::At(&["spec", "nodeName"])),
    ("spec.restartPolicy", Read::At(&["spec", "restartPolicy"])),
    ("spec.schedulerName", Read::At(&["spec", "schedulerName"])),
    ("spec.serviceAccountName", Read::At(&["spec", "serviceAccountName"])),
    ("status.nominatedNodeName", Read::At(&["status", "nominatedNodeName"])),
    ("status.phase", Read::At(&["status", "phase"])),
    ("status.podIP", Read::At(&["status", "podIP"])),
    ("status.podIPs", Read::By(pod_ips, &[&["status", "podIPs"]])),
];
/// Events are read in either of their versions.
const EVENT: &[(&str, Read)] = &[
    (
        "involvedObject.apiVersion",
        Read::Either(&["involvedObject", "apiVersion"], &["regarding", "apiVersion"]),
    ),
    ("involvedObject.fieldPath", Read::Either(&["involvedObject", "fieldPath"], &["regarding", "fieldPath"])),
    ("involvedObject.kind", Read::Either(&["involvedObject", "kind"], &["regarding", "kind"])),
    ("involvedObject.name", Read::Either(&["involvedObject", "name"], &["regarding", "name"])),
    ("involvedObject.namespace", Read::Either(&["involvedObject", "namespace"], &["regarding", "namespace"])),
    (
        "involvedObject.resourceVersion",
        Read::Either(&["involvedObject", "resourceVersion"], &["regarding", "resourceVersion"]),
    ),
    ("involvedObject.uid", Read::Either(&["involvedObject", "uid"], &["regarding", "uid"])),
    ("reason", Read::At(&["reason"])),
    ("reportingComponent", Read::Either(&["reportingComponent"], &["reportingController"])),
    ("source", Read::By(event_source, &[&["source", "component"], &["reportingComponent"]])),
    ("type", Read::At(&["type"])),
];
const NODE: &[(&str, Read)] = &[("spec.unschedulable", Read::Or(&["spec", "unschedulable"], "false"))];
const NAMESPACES: &[(&str, Read)] = &[("status.phase", Read::At(&["status", "phase"]))];
const SECRET: &[(&str, Read)] = &[("type", Read::At(&["type"]))];
const SERVICE: &[(&str, Read)] =
    &[("spec.clusterIP", Read::At(&["spec", "clusterIP"])), ("spec.type", Read::At(&["spec", "type"]))];
const CONTROLLER: &[(&str, Read)] = &[("status.replicas", Read::Or(&["status", "replicas"], "0"))];
const JOB: &[(&str, Read)] = &[("status.successful", Read::Or(&["status", "succeeded"], "0"))];
/// Signing requests and bundles of trust.
const SIGNED: &[(&str, Read)] = &[("spec.signerName", Read::At(&["spec", "signerName"]))];
const POD_CERTIFICATE: &[(&str, Read)] = &[
    ("spec.nodeName", Read::At(&["spec", "nodeName"])),
    ("spec.podName", Read::At(&["spec", "podName"])),
    ("spec.signerName", Read::At(&["spec", "signerName"])),
];
const SLICE: &[(&str, Read)] =
    &[("spec.driver", Read::At(&["spec", "driver"])), ("spec.nodeName", Read::At(&["spec", "nodeName"]))];

/// The fields of a kind besides name and namespace, sorted.
fn own_fields(resource: &Resource) -> &'static [(&'static str, Read)] {
    if let Some(custom) = resource.custom {
        return custom.fields;
    }
    match (resource.group, resource.plural) {
        ("", "pods") => POD,
        ("" | "events.k8s.io", "events") => EVENT,
        ("", "nodes") => NODE,
        ("", "namespaces") => NAMESPACES,
        ("", "secrets") => SECRET,
        ("", "services") => SERVICE,
        ("", "replicationcontrollers") => CONTROLLER,
        ("batch", "jobs") => JOB,
        ("certificates.k8s.io", "certificatesigningrequests" | "clustertrustbundles") => SIGNED,
        ("certificates.k8s.io", "podcertificaterequests") => POD_CERTIFICATE,
        ("resource.k8s.io", "resourceslices") => SLICE,
        _ => &[],
    }
}

/// The label of an object's name.
pub const NAME: &str = "metadata.name";
/// The label of an object's namespace.
pub const NAMESPACE: &str = "metadata.namespace";

/// The label under which the stored version of a kind knows a field; `None` if the kind cannot be selected by it.
fn stored_label<'f>(resource: &Resource, field: &'f str) -> Option<Cow<'f, str>> {
    match (resource.group, resource.plural, field) {
        (_, _, NAME | NAMESPACE) => Some(field.into()),
        _ if resource.is_custom() => {
            let declared = resource.custom.is_some_and(|custom| custom.selectable.contains(&field));
            declared.then_some(field.into())
        }
        ("", "pods", "spec.host") => Some("spec.nodeName".into()),
        ("", "namespaces", "name") => Some(NAME.into()),
        ("events.k8s.io", "events", "reportingController") => Some("reportingComponent".into()),
        ("events.k8s.io", "events", "reason" | "type") => Some(field.into()),
        ("events.k8s.io", "events", _) => {
            let part = field.strip_prefix("regarding.")?;
            let label = format!("involvedObject.{part}");
            own_fields(resource).iter().any(|(own, _)| *own == label).then_some(label.into())
        }
        _ => own_fields(resource).iter().any(|(own, _)| *own == field).then_some(field.into()),
    }
}

/// Whether a kind can be selected by a field.
pub fn is_selectable(resource: &Resource, field: &str) -> bool {
    stored_label(resource, field).is_some()
}

fn unknown_field(resource: &Resource, field: &str) -> SelectorError {
    SelectorError(match (resource.group, resource.plural) {
        ("batch", "jobs") => format!("field label \"{field}\" not supported for Job"),
        _ if own_fields(resource).is_empty() && !resource.is_custom() => {
            format!("\"{field}\" is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\"")
        }
        _ => format!("field label not supported: {field}"),
    })
}

/// The value of one field of an object; `None` if the kind has no such field.
pub fn field_of<'o>(resource: &Resource, field: &str, object: &'o Value) -> Option<Cow<'o, str>> {
    match field {
        NAME => Some(meta::name(object).into()),
        NAMESPACE => Some(meta::namespace(object).into()),
        _ => own_fields(resource).iter().find(|(label, _)| *label == field).map(|(_, read)| read.of(object)),
    }
}

/// The labels of a kind's fields besides name and namespace, sorted.
pub fn own_labels(resource: &Resource) -> impl ExactSizeIterator<Item = &'static str> + use<> {
    own_fields(resource).iter().map(|(label, _)| *label)
}

/// The place of a label among [`own_labels`].
pub fn position(resource: &Resource, label: &str) -> Option<usize> {
    own_fields(resource).binary_search_by(|(own, _)| (*own).cmp(label)).ok()
}

/// The values of those fields of an object, in the order of [`own_labels`].
pub fn own_values<'o>(
    resource: &Resource,
    object: &'o Value,
) -> impl Iterator<Item = Cow<'o, str>> + use<'o> {
    own_fields(resource).iter().map(|(_, read)| read.of(object))
}

/// The places in an object that [`own_values`] looks at: who needs nothing else of it can skip the rest.
pub fn own_paths(resource: &Resource) -> impl Iterator<Item = &'static [&'static str]> + use<> {
    own_fields(resource).iter().flat_map(|(_, read)| match read {
        Read::At(path) | Read::Or(path, _) => vec![*path],
        Read::Either(path, other) => vec![*path, *other],
        Read::By(_, paths) => paths.to_vec(),
    })
}

impl Read {
    fn of<'o>(&self, object: &'o Value) -> Cow<'o, str> {
        match self {
            Read::By(compute, _) => compute(object),
            Read::At(path) => scalar(object, path).unwrap_or_default(),
            Read::Or(path, absent) => scalar(object, path).unwrap_or((*absent).into()),
            Read::Either(path, other) => {
                scalar(object, path).or_else(|| scalar(object, other)).unwrap_or_default()
            }
        }
    }
}

/// The text of a string, number or boolean.
fn scalar<'o>(object: &'o Value, path: &[&str]) -> Option<Cow<'o, str>> {
    match path.iter().fold(object, |value, member| &value[*member]) {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(flag) => Some(flag.to_string().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn pod_ips(pod: &Value) -> Cow<'_, str> {
    let ips = pod["status"]["podIPs"].as_array().into_iter().flatten().filter_map(|ip| ip["ip"].as_str());
    ips.collect::<Vec<_>>().join(",").into()
}

fn event_source(event: &Value) -> Cow<'_, str> {
    let component = event["source"]["component"].as_str().unwrap_or_default();
    if component.is_empty() { event["reportingComponent"].as_str().unwrap_or_default() } else { component }
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::lookup;

    fn pods() -> &'static Resource {
        lookup("", "v1", "pods").unwrap()
    }

    /// Whether the values that are kept of an object satisfy a selector.
    fn fits(selector: &Selector, resource: &Resource, object: &Value) -> bool {
        let values: Vec<_> = own_values(resource, object).collect();
        selector.matches_fields(|label| match label {
            NAME => meta::name(object),
            NAMESPACE => meta::namespace(object),
            _ => position(resource, label).map_or("", |at| &values[at]),
        })
    }

    #[test]
    fn terms_are_read_with_escapes() {
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
    fn fields_a_kind_does_not_have_are_refused_with_kubernetes_texts() {
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
    fn pods_are_selected_by_node_phase_and_name() {
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
            assert_eq!(fits(&selector, pods(), &pod), want, "{text}");
        }
    }

    #[test]
    fn events_are_selected_by_their_object_and_an_empty_namespace_matches_empty() {
        let events = lookup("", "v1", "events").unwrap();
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n"},
            "reportingComponent": "kubelet", "type": "Normal"});
        let text = "involvedObject.kind=Node,involvedObject.namespace=,involvedObject.name=n,source=kubelet,type!=Warning";
        assert!(Selector::parse(text).unwrap().check(events).unwrap().matches(events, &event));
        let new = lookup("events.k8s.io", "v1", "events").unwrap();
        let text = "regarding.kind=Node,reportingController=kubelet";
        let selector = Selector::parse(text).unwrap().check(new).unwrap();
        assert!(fits(&selector, events, &event), "one selector for both versions");
        let turned = json!({"regarding": {"kind": "Node"}, "reportingController": "kubelet"});
        assert!(selector.matches(new, &turned));
        assert!(Selector::parse("involvedObject.kind=Node").unwrap().check(new).is_err());
        assert_eq!(Selector::parse("a=b,c=d").unwrap().required("c"), Some("d"));
    }

    #[test]
    fn fields_are_sorted_for_every_kind() {
        for resource in crate::kind::RESOURCES {
            assert!(own_labels(resource).is_sorted(), "{}", resource.plural);
        }
    }
}

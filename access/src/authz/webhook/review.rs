//! [`Question`]: a request in the form of a SubjectAccessReview, and the interpretation of the webhook's
//! answer. Pure.

use super::Verdict;
use crate::authz::{Attributes, Decision, ReviewVersion, Selects, Target};
use kstore_api::selector::label::Test;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Longest review spec whose verdict is cached, in bytes: Kubernetes' bound on values that callers choose.
const CACHEABLE_BYTES: usize = 10_000;

/// A request in the form of a review's `spec`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Question {
    spec: Value,
    text: String,
}

impl Question {
    pub(crate) fn of(request: &Attributes<'_>) -> Self {
        let mut spec = Map::new();
        match request.target {
            Target::Path(path) => {
                spec.insert(
                    "nonResourceAttributes".into(),
                    present(&[("path", path), ("verb", request.verb)]).into(),
                );
            }
            Target::Resource { group, resource, subresource, namespace, name } => {
                let mut attributes = present(&[
                    ("namespace", namespace),
                    ("verb", request.verb),
                    ("group", group),
                    ("version", request.more.version),
                    ("resource", resource),
                    ("subresource", subresource),
                    ("name", name),
                ]);
                if let Some(selects) = request.more.selects {
                    for (field, requirements) in
                        [("fieldSelector", fields(selects)), ("labelSelector", labels(selects))]
                    {
                        if !requirements.is_empty() {
                            attributes.insert(field.into(), json!({"requirements": requirements}));
                        }
                    }
                }
                spec.insert("resourceAttributes".into(), attributes.into());
            }
        }
        spec.insert("user".into(), json!(request.user.username));
        if !request.user.groups.is_empty() {
            spec.insert("groups".into(), json!(request.user.groups));
        }
        if !request.user.extra.is_empty() {
            spec.insert("extra".into(), json!(request.user.extra));
        }
        if !request.user.uid.is_empty() {
            spec.insert("uid".into(), json!(request.user.uid));
        }
        let spec = Value::Object(spec);
        let text = spec.to_string();
        Self { spec, text }
    }

    /// The review to send.
    pub(super) fn review(&self, version: ReviewVersion) -> Value {
        let mut spec = self.spec.clone();
        if version == ReviewVersion::V1Beta1
            && let Some(spec) = spec.as_object_mut()
            && let Some(groups) = spec.remove("groups")
        {
            spec.insert("group".into(), groups);
        }
        json!({
            "kind": "SubjectAccessReview",
            "apiVersion": format!("authorization.k8s.io/{}", version.name()),
            "metadata": {"creationTimestamp": null},
            "spec": spec,
            "status": {"allowed": false},
        })
    }

    /// The spec as match conditions see it, with empty fields of attributes.
    pub(super) fn condition_spec(&self) -> Value {
        let mut spec = self.spec.clone();
        for (part, fields) in [
            (
                "resourceAttributes",
                &["namespace", "verb", "group", "version", "resource", "subresource", "name"][..],
            ),
            ("nonResourceAttributes", &["path", "verb"]),
        ] {
            if let Some(part) = spec[part].as_object_mut() {
                for field in fields {
                    part.entry(*field).or_insert_with(|| json!(""));
                }
            }
        }
        // Indexing above inserted null for the absent part.
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|_, value| !value.is_null());
            for (field, empty) in [("groups", json!([])), ("extra", json!({})), ("uid", json!(""))] {
                spec.entry(field).or_insert(empty);
            }
        }
        spec
    }

    /// The cache key of the request, unique by hash.
    pub(super) fn key(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    /// Whether the verdict may be cached.
    pub(super) fn is_cacheable(&self) -> bool {
        self.text.len() <= CACHEABLE_BYTES
    }
}

/// The fields that are not empty.
fn present(fields: &[(&str, &str)]) -> Map<String, Value> {
    let fields = fields.iter().filter(|(_, value)| !value.is_empty());
    fields.map(|(field, value)| ((*field).to_owned(), json!(value))).collect()
}

fn fields(selects: Selects<'_>) -> Vec<Value> {
    let requirement = |term: &kstore_api::selector::field::Term| {
        let operator = if term.negated { "NotIn" } else { "In" };
        json!({"key": term.field, "operator": operator, "values": [term.value]})
    };
    selects.fields.terms().iter().map(requirement).collect()
}

/// The label requirements. Numeric comparisons cannot be expressed in a review and are left out, which widens
/// the request, as in Kubernetes.
fn labels(selects: Selects<'_>) -> Vec<Value> {
    let requirement = |requirement: &kstore_api::selector::label::Requirement| {
        let key = &requirement.key;
        match &requirement.test {
            Test::Exists => Some(json!({"key": key, "operator": "Exists"})),
            Test::DoesNotExist => Some(json!({"key": key, "operator": "DoesNotExist"})),
            Test::Equals(value) => Some(json!({"key": key, "operator": "In", "values": [value]})),
            Test::NotEquals(value) => Some(json!({"key": key, "operator": "NotIn", "values": [value]})),
            Test::In(values) => Some(json!({"key": key, "operator": "In", "values": values})),
            Test::NotIn(values) => Some(json!({"key": key, "operator": "NotIn", "values": values})),
            Test::GreaterThan(_) | Test::LessThan(_) => None,
        }
    };
    selects.labels.requirements().iter().filter_map(requirement).collect()
}

#[derive(Deserialize)]
struct Review {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
    evaluation_error: String,
}

/// Interprets a webhook's answer.
///
/// # Errors
/// If the answer is not a review, or both allows and denies.
pub(super) fn read(body: &[u8]) -> Result<Verdict, String> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("the webhook's answer is not a SubjectAccessReview: {error}"))?;
    let status = review.status.ok_or("the webhook's answer has no status")?;
    let decision = match (status.allowed, status.denied) {
        (true, true) => {
            return Err("webhook subject access review returned both allow and deny response".to_owned());
        }
        (true, false) => Decision::Allow(status.reason),
        (false, true) => Decision::Deny(status.reason),
        (false, false) => Decision::NoOpinion(status.reason),
    };
    if !status.evaluation_error.is_empty() {
        tracing::debug!(
            error = status.evaluation_error,
            "an authorization webhook reports an evaluation error"
        );
    }
    Ok(Verdict { decision, error: None })
}

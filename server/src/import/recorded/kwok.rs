//! Recordings of KWOK (`kwokctl snapshot record`): the manifests of a snapshot, and then a `ResourcePatch` for each change. Times in
//! strings are offsets from the start of the recording.

use super::super::UnusableSource;
use super::super::objects::ObjectSet;
use super::{ObjectChange, TimedChange, malformed};
use jiff::{SignedDuration, Timestamp};
use kstore_api::{meta, object};
use serde::Deserialize;
use serde_json::{Value, json};

/// The program in the provenance of its changes.
pub(super) const PROGRAM: &str = "kwok";

const API_VERSION: &str = "action.kwok.x-k8s.io/v1alpha1";
const KIND: &str = "ResourcePatch";

/// Begin and end of a time that is an offset from the start, in nanoseconds.
const OFFSET: (&str, &str) = ("$(time-offset-nanosecond ", ")");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourcePatch {
    resource: PatchedResource,
    target: PatchTarget,
    /// Nanoseconds since the start of the recording.
    duration_nanosecond: i64,
    method: PatchMethod,
    #[serde(default)]
    template: Value,
}

#[derive(Deserialize)]
struct PatchedResource {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}

#[derive(Deserialize)]
struct PatchTarget {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PatchMethod {
    Create,
    Patch,
    Delete,
}

/// Whether a document is a change of a recording of KWOK.
pub(super) fn is_patch(document: &Value) -> bool {
    object::api_version(document) == API_VERSION && object::kind(document) == KIND
}

/// The object that a document creates, if it does.
pub(super) fn created(document: &Value) -> Option<&Value> {
    document.get("template").filter(|_| is_patch(document))
}

/// The change of a document.
///
/// # Errors
/// A member is missing or of another type, or the resource is of no known kind.
pub(super) fn change(
    document: Value,
    objects: &ObjectSet,
    start: Timestamp,
) -> Result<TimedChange, UnusableSource> {
    let ResourcePatch { resource, target, duration_nanosecond, method, template } =
        serde_json::from_value(document).map_err(|error| malformed("a ResourcePatch of KWOK", error))?;
    let PatchedResource { group, version, resource } = resource;
    let kind = objects.kind_of_resource(&group, &version, &resource);
    let kind = kind.ok_or_else(|| {
        let reason = format!("no kind has the resource {resource:?} of {group:?} in version {version:?}");
        malformed("a ResourcePatch of KWOK", reason)
    })?;
    let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
    let mut named = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": target.name}});
    if !target.namespace.is_empty() {
        meta::set_namespace(&mut named, &target.namespace);
    }
    let time = start.saturating_add(SignedDuration::from_nanos(duration_nanosecond));
    let time_us = time.unwrap_or(start).as_microsecond();
    let change = match method {
        PatchMethod::Create => ObjectChange::Put(completed(template, &named)),
        PatchMethod::Patch => ObjectChange::Patch { object: named, patch: template },
        PatchMethod::Delete => ObjectChange::Delete(named),
    };
    Ok(TimedChange { time_us, change })
}

/// An object that is created, with kind and name of the target.
fn completed(mut template: Value, named: &Value) -> Value {
    if !template.is_object() {
        return named.clone();
    }
    object::set_type_meta(&mut template, object::api_version(named), object::kind(named));
    let metadata = meta::metadata_mut(&mut template);
    for (member, value) in named["metadata"].as_object().into_iter().flatten() {
        metadata.insert(member.clone(), value.clone());
    }
    template
}

/// Replaces the offsets in all strings of a document by times.
pub(super) fn resolve_times(value: &mut Value, start: Timestamp) {
    match value {
        Value::String(text) if text.contains(OFFSET.0) => *text = resolved(text, start),
        Value::Array(values) => values.iter_mut().for_each(|value| resolve_times(value, start)),
        Value::Object(members) => members.values_mut().for_each(|value| resolve_times(value, start)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn resolved(text: &str, start: Timestamp) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(OFFSET.0) {
        out.push_str(before);
        let offset = after.split_once(OFFSET.1).and_then(|(number, rest)| Some((number.parse().ok()?, rest)));
        let time = offset.and_then(|(nanoseconds, rest)| {
            Some((start.checked_add(SignedDuration::from_nanos(nanoseconds)).ok()?, rest))
        });
        match time {
            Some((time, behind)) => {
                let is_whole = time.subsec_nanosecond() == 0;
                out.push_str(&if is_whole { meta::format_time(time) } else { meta::format_micro_time(time) });
                rest = behind;
            }
            None => {
                out.push_str(OFFSET.0);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn offsets_become_times_and_other_texts_stay() {
        let mut value = json!({"a": ["x $(time-offset-nanosecond 1500000000) y"], "b": {
            "c": "$(time-offset-nanosecond -1000000000)", "d": "$(time-offset-nanosecond x)", "e": "$(time-offset-nanosecond 5"}});
        resolve_times(&mut value, start());
        assert_eq!(
            value,
            json!({"a": ["x 2026-01-01T00:00:01.500000Z y"], "b": {"c": "2025-12-31T23:59:59Z",
                "d": "$(time-offset-nanosecond x)", "e": "$(time-offset-nanosecond 5"}})
        );
    }
}

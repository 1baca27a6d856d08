//! [`row`]: the summary of one object for lists and for the page, made of the stored object. Pure.

use super::limits;
use super::state::{self, State};
use kstore_api::quantity::Quantity;
use kstore_api::resource::Resource;
use serde_json::{Map, Value, json};

/// The row of an object: short members; empty ones are left out.
///
/// | member | value |
/// |---|---|
/// | `k`, `n`, `m` | resource (`pods`, `deployments.apps`), namespace, name |
/// | `u`, `o` | UID; UID of the controller that owns the object, or of the object that an Event is about |
/// | `c` | time of creation: RFC 3339 |
/// | `s` | state, one of the words of [`State`] |
/// | `r` | ready and wanted parts: `1/2` |
/// | `d` | node |
/// | `q` | CPU in thousandths and memory in MiB: requested by a pod, allocatable on a node |
/// | `x` | restarts of a pod's containers; how often an Event occurred |
/// | `t` | what is wrong, or what a list shows besides |
/// | `i`, `l` | images; labels |
pub(super) fn row(resource: &Resource, namespace: &str, name: &str, object: &Value) -> Map<String, Value> {
    let mut row = Map::new();
    let metadata = &object["metadata"];
    put(&mut row, "k", json!(resource.qualified()));
    put(&mut row, "n", json!(namespace));
    put(&mut row, "m", json!(name));
    put(&mut row, "u", metadata["uid"].clone());
    put(&mut row, "c", metadata["creationTimestamp"].clone());
    put(&mut row, "o", owner(resource, object));
    let state = state::of(resource, object);
    put(&mut row, "s", json!(state.word()));
    put(&mut row, "t", json!(short(&text(resource, object, state))));
    put(&mut row, "l", labels(&metadata["labels"]));
    if resource.is("", "pods") {
        put(&mut row, "d", object["spec"]["nodeName"].clone());
        put(&mut row, "x", json!(restarts(&object["status"]["containerStatuses"])));
        put(&mut row, "q", requests(&object["spec"]["containers"]));
    } else if resource.is("", "nodes") {
        put(&mut row, "q", amounts(&object["status"]["allocatable"]));
    } else if resource.is("", "events") {
        put(&mut row, "x", object["count"].clone());
    }
    put(&mut row, "r", json!(ready(resource, object)));
    put(&mut row, "i", images(resource, object));
    row
}

/// Adds a member unless its value is empty or zero.
fn put(row: &mut Map<String, Value>, member: &str, value: Value) {
    let is_empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_u64() == Some(0),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) => false,
    };
    if !is_empty {
        row.insert(member.to_owned(), value);
    }
}

/// UID of the controller that owns an object, or of the object that an Event is about.
fn owner(resource: &Resource, object: &Value) -> Value {
    if resource.is("", "events") {
        return object["involvedObject"]["uid"].clone();
    }
    let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let controller = owners.iter().find(|owner| owner["controller"] == true).or(owners.first());
    controller.map_or(Value::Null, |owner| owner["uid"].clone())
}

fn labels(labels: &Value) -> Value {
    labels
        .as_object()
        .into_iter()
        .flatten()
        .take(limits::LABELS)
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Ready and wanted parts; empty for kinds without parts.
fn ready(resource: &Resource, object: &Value) -> String {
    if resource.is("", "pods") {
        let wanted = object["spec"]["containers"].as_array().map_or(0, Vec::len);
        let statuses = object["status"]["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
        let ready = statuses.iter().filter(|status| status["ready"] == true).count();
        return format!("{ready}/{wanted}");
    }
    match state::parts(resource, object) {
        Some((ready, wanted)) => format!("{ready}/{wanted}"),
        None => String::new(),
    }
}

fn restarts(statuses: &Value) -> i64 {
    let of = |status: &Value| status["restartCount"].as_i64().unwrap_or(0);
    statuses.as_array().into_iter().flatten().map(of).sum()
}

/// Sum of what containers request.
fn requests(containers: &Value) -> Value {
    let mut sum = [0, 0];
    for container in containers.as_array().into_iter().flatten() {
        for (at, amount) in pair(&container["resources"]["requests"]).into_iter().enumerate() {
            sum[at] += amount;
        }
    }
    if sum == [0, 0] { Value::Null } else { json!(sum) }
}

fn amounts(list: &Value) -> Value {
    json!(pair(list))
}

/// CPU in thousandths and memory in MiB.
fn pair(list: &Value) -> [i64; 2] {
    let of = |name: &str| list[name].as_str().and_then(|text| Quantity::parse(text).ok());
    [of("cpu").map_or(0, Quantity::milli), of("memory").map_or(0, |memory| memory.units() / (1024 * 1024))]
}

fn images(resource: &Resource, object: &Value) -> Value {
    let containers = resource.pod_template(object).and_then(|pod| pod["spec"]["containers"].as_array());
    let images = containers.into_iter().flatten().map(|container| container["image"].clone());
    images.take(limits::IMAGES).collect()
}

/// What is wrong with the object, or what a list of its kind shows besides.
fn text(resource: &Resource, object: &Value, state: State) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |group: &str, plural: &str| resource.is(group, plural);
    if of("", "events") {
        return format!("{}: {}", word(&object["reason"]), word(&object["message"]));
    }
    if of("", "pods") {
        return pod_text(object);
    }
    if of("", "services") {
        let spec = &object["spec"];
        return format!("{} {}", word(&spec["type"]), word(&spec["clusterIP"]));
    }
    if of("", "configmaps") || of("", "secrets") {
        let keys = object["data"].as_object().map_or(0, Map::len);
        return format!("{keys} {}", if keys == 1 { "key" } else { "keys" });
    }
    if state.is_bad() {
        return state::complaint(object);
    }
    word(&object["status"]["phase"])
}

/// Why a pod waits or failed.
fn pod_text(pod: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let statuses = pod["status"]["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    for status in statuses {
        let (waiting, ended) = (&status["state"]["waiting"], &status["state"]["terminated"]);
        let reason = word(&waiting["reason"]);
        if !reason.is_empty() && reason != "ContainerCreating" && reason != "PodInitializing" {
            return reason;
        }
        if ended["exitCode"].as_i64().is_some_and(|code| code != 0) {
            return format!("{} (exit code {})", word(&ended["reason"]), ended["exitCode"]);
        }
    }
    let unscheduled =
        state::condition(pod, "PodScheduled").filter(|condition| condition["status"] == "False");
    match unscheduled {
        Some(condition) => word(&condition["message"]),
        None => word(&pod["status"]["reason"]),
    }
}

/// A text of bounded length without control characters.
fn short(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.trim().chars().take(limits::TEXT_CHARACTERS).map(plain).collect();
    if text.trim().chars().nth(limits::TEXT_CHARACTERS).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;

    fn of(api_version: &str, plural: &str, object: Value) -> Value {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = kind::lookup(group, version, plural).unwrap();
        Value::Object(row(resource, "ns", "x", &object))
    }

    #[test]
    fn the_row_of_a_pod_says_where_it_runs_and_why_it_waits() {
        let containers = json!([{"name": "a", "image": "nginx:2", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}},
            {"name": "b", "image": "side"}]);
        let running = json!({"metadata": {"uid": "u", "labels": {"app": "web"}, "ownerReferences": [{"uid": "other"},
                {"uid": "set", "controller": true}]},
            "spec": {"nodeName": "node-1", "containers": containers},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [{"ready": true, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(
            of("v1", "pods", running),
            json!({"k": "pods", "n": "ns", "m": "x", "u": "u", "o": "set", "s": "unready", "r": "1/2", "d": "node-1", "x": 3,
                "q": [1500, 1024], "t": "CrashLoopBackOff", "i": ["nginx:2", "side"], "l": {"app": "web"}})
        );
        let pending = json!({"spec": {"containers": []}, "status": {"phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}});
        assert_eq!(
            of("v1", "pods", pending),
            json!({"k": "pods", "n": "ns", "m": "x", "s": "pending", "r": "0/0", "t": "0/3 nodes are available"})
        );
    }

    #[test]
    fn values_of_secrets_are_in_no_row() {
        let secret = json!({"data": {"password": "aHVudGVyMg=="}, "type": "Opaque"});
        let row = of("v1", "secrets", secret);
        assert_eq!(row["t"], "1 key");
        assert!(!row.to_string().contains("aHVudGVyMg"), "{row}");
    }

    #[test]
    fn texts_and_labels_are_bounded_and_have_no_control_characters() {
        let labels: Map<String, Value> = (0..100).map(|at| (format!("l{at}"), json!("v"))).collect();
        let event = json!({"metadata": {"labels": labels}, "type": "Warning", "reason": "R\n", "message": "\u{1b}m".repeat(999),
            "involvedObject": {"uid": "p"}, "count": 4});
        let row = of("v1", "events", event);
        assert_eq!(
            (row["s"].as_str(), row["o"].as_str(), row["x"].as_i64()),
            (Some("warning"), Some("p"), Some(4))
        );
        assert_eq!(row["l"].as_object().unwrap().len(), limits::LABELS);
        let text = row["t"].as_str().unwrap();
        assert!(
            text.chars().count() == limits::TEXT_CHARACTERS + 1 && !text.contains(char::is_control),
            "{text}"
        );
    }
}

//! PodResizeValidator.

use super::{Case, Operation, pod};
use kstore_api::version::Minor;
use serde_json::{Value, json};

/// A pod with one container, an overhead of 100m, and these requests.
fn sized(node: &str, cpu: &str, memory: &str) -> Value {
    let resources = json!({ "requests": { "cpu": cpu, "memory": memory } });
    let containers = json!([{ "name": "c", "image": "i", "resources": resources }]);
    pod(json!({ "nodeName": node, "containers": containers, "overhead": { "cpu": "100m" } }))
}

#[test]
fn a_pod_is_resized_within_what_its_node_has() {
    let node = |name: &str, os: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "kubernetes.io/os": os } },
            "status": { "allocatable": { "cpu": "2", "memory": "1Gi" } },
        })
    };
    let ask_in = |minor, subresource: &'static str, mut new: Value, old: Value| {
        new["metadata"]["generation"] = if new == old { Value::Null } else { json!(2) };
        let case = Case::create([node("n", "linux"), node("w", "windows")]);
        let case = Case { operation: Operation::Update, subresource, old: Some(old), minor, ..case };
        let refused = case.admit(new).err().map(|status| (status.code, status.message));
        refused.map(|(code, text)| (code, text.trim_start_matches("pods \"p\" is forbidden: ").to_owned()))
    };
    let ask = |subresource, new, old| ask_in(Minor::DEFAULT, subresource, new, old);
    let small = |name: &str| sized(name, "1", "1Mi");
    let cpu = "Node didn't have enough allocatable resources: cpu, requested: 2100, allocatable: 2000";
    let both = format!("{cpu}; memory, requested: 2147483648, allocatable: 1073741824");
    for (subresource, new, old, expected) in [
        ("resize", sized("n", "1900m", "1Gi"), small("n"), None),
        ("resize", sized("n", "2", "1Mi"), small("n"), Some(cpu)),
        ("resize", sized("n", "2", "2Gi"), small("n"), Some(&both)),
        ("resize", sized("n", "9", "1Mi"), sized("n", "9", "1Mi"), None),
        ("resize", sized("", "9", "1Mi"), small(""), None),
        ("", sized("n", "9", "1Mi"), small("n"), None),
        ("resize", sized("x", "1", "2Mi"), small("x"), Some("node \"x\" not found")),
        (
            "resize",
            sized("w", "1", "2Mi"),
            small("w"),
            Some("pod resize is only supported on linux nodes, node \"w\" is \"windows\""),
        ),
    ] {
        let wanted = expected.map(|text| (403, text.to_owned()));
        assert_eq!(ask(subresource, new.clone(), old), wanted, "{new}");
    }
    for minor in Minor::ALL {
        let refused = ask_in(minor, "resize", sized("n", "2", "1Mi"), small("n"));
        assert_eq!(refused.is_some(), minor >= Minor::V36, "{minor}");
    }
}

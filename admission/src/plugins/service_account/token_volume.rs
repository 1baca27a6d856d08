//! The volume through which a pod's containers access the API: the account's token, the CA certificate of the
//! API server and the pod's namespace. Pure.

use serde_json::{Value, json};

/// The path at which clients in containers look for the token.
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Prefix of the volume's name.
const PREFIX: &str = "kube-api-access-";
/// Lifetime of the token. The API server recognizes tokens of pods by the extra seven seconds.
const EXPIRATION_SECONDS: u32 = 3607;
/// Permissions of the files: 0644.
const MODE: u32 = 420;

/// Whether a pod gets the token: as the pod sets it, else as its account sets it, else yes.
pub(super) fn is_wanted(account: &Value, spec: &Value) -> bool {
    let wish = |value: &Value| value["automountServiceAccountToken"].as_bool();
    wish(spec).or_else(|| wish(account)).unwrap_or(true)
}

/// Mounts the token in every container without a mount at its path. A pod with such a volume gets no second
/// one.
pub(super) fn mount(spec: &mut Value, suffix: impl FnOnce() -> String) {
    let existing = spec["volumes"].as_array().into_iter().flatten();
    let existing =
        existing.filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with(PREFIX));
    let (has_volume, name) = match existing {
        Some(name) => (true, name.to_owned()),
        None => (false, format!("{PREFIX}{}", suffix())),
    };
    let mut is_mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for mounts in containers.filter_map(mounts_of) {
            if mounts.iter().all(|mount| mount["mountPath"] != MOUNT_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                is_mounted = true;
            }
        }
    }
    if is_mounted && !has_volume {
        match spec.get_mut("volumes").and_then(Value::as_array_mut) {
            Some(volumes) => volumes.push(volume(&name)),
            None => spec["volumes"] = json!([volume(&name)]),
        }
    }
}

/// The mounts of a container, created if absent; `None` if the value is not an object.
fn mounts_of(container: &mut Value) -> Option<&mut Vec<Value>> {
    let mounts = container.as_object_mut()?.entry("volumeMounts").or_insert_with(|| json!([]));
    if mounts.is_null() {
        *mounts = json!([]);
    }
    mounts.as_array_mut()
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": EXPIRATION_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
            "defaultMode": MODE,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounted(mut spec: Value) -> Value {
        mount(&mut spec, || "abcde".to_owned());
        spec
    }

    #[test]
    fn every_container_mounts_the_token_unless_its_path_is_taken() {
        let own = json!({"name": "e", "mountPath": MOUNT_PATH});
        let token = json!({"name": "kube-api-access-abcde", "readOnly": true, "mountPath": MOUNT_PATH});
        let spec = mounted(json!({
            "volumes": [{"name": "e", "emptyDir": {}}],
            "initContainers": [{"name": "i", "volumeMounts": null}],
            "containers": [{"name": "c"}, {"name": "d", "volumeMounts": [own]}],
        }));
        assert_eq!(spec["initContainers"][0]["volumeMounts"], json!([token]));
        assert_eq!(spec["containers"][0]["volumeMounts"], json!([token]));
        assert_eq!(spec["containers"][1]["volumeMounts"], json!([own]));
        assert_eq!(spec["volumes"][1]["name"], "kube-api-access-abcde");
        assert_eq!(spec["volumes"][1]["projected"]["sources"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_pod_whose_containers_all_mount_the_path_gets_no_volume() {
        let spec =
            json!({"containers": [{"name": "c", "volumeMounts": [{"name": "e", "mountPath": MOUNT_PATH}]}]});
        assert_eq!(mounted(spec.clone()), spec);
    }

    #[test]
    fn an_existing_token_volume_is_used_for_further_containers() {
        let once = mounted(json!({"containers": [{"name": "c"}]}));
        let mut twice = once.clone();
        twice["containers"].as_array_mut().unwrap().push(json!({"name": "sidecar"}));
        mount(&mut twice, || unreachable!("the volume has a name"));
        assert_eq!(twice["volumes"], once["volumes"]);
        assert_eq!(twice["containers"][1]["volumeMounts"], once["containers"][0]["volumeMounts"]);
    }

    #[test]
    fn automounting_is_set_by_the_pod_before_its_account() {
        let says = |wish: Option<bool>| json!({"automountServiceAccountToken": wish});
        for (account, pod, expected) in [
            (None, None, true),
            (Some(false), None, false),
            (Some(false), Some(true), true),
            (Some(true), Some(false), false),
            (None, Some(false), false),
        ] {
            assert_eq!(is_wanted(&says(account), &says(pod)), expected, "{account:?} {pod:?}");
        }
        assert!(is_wanted(&Value::Null, &json!({})));
    }
}

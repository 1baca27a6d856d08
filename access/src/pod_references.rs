//! The ConfigMaps and Secrets that a pod refers to by name, as Kubernetes finds them: in pull secrets,
//! environment variables of all containers, and volumes. Pure. References of the pod's claims and volumes are
//! not followed.

use serde_json::Value;

/// The lists of containers in a pod's `spec`.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The locations in a pod's `spec` that name objects of one kind.
struct References {
    /// The member of an `envFrom` entry that names an object.
    env_from: &'static str,
    /// The member of `env[].valueFrom` that names an object.
    env: &'static str,
    /// JSON pointers within a volume.
    volume: &'static [&'static str],
    /// The JSON pointer within a source of a projected volume.
    projected: &'static str,
}

const SECRETS: References = References {
    env_from: "secretRef",
    env: "secretKeyRef",
    volume: &[
        "/secret/secretName",
        "/azureFile/secretName",
        "/cephfs/secretRef/name",
        "/cinder/secretRef/name",
        "/flexVolume/secretRef/name",
        "/iscsi/secretRef/name",
        "/rbd/secretRef/name",
        "/scaleIO/secretRef/name",
        "/storageos/secretRef/name",
        "/csi/nodePublishSecretRef/name",
    ],
    projected: "/secret/name",
};

const CONFIG_MAPS: References = References {
    env_from: "configMapRef",
    env: "configMapKeyRef",
    volume: &["/configMap/name"],
    projected: "/configMap/name",
};

/// The names of the Secrets that a pod's `spec` refers to, with repetitions.
pub fn secrets(spec: &Value) -> impl Iterator<Item = &str> {
    let pulls = items(&spec["imagePullSecrets"]).map(|secret| &secret["name"]);
    names(pulls).chain(SECRETS.names(spec))
}

/// The names of the ConfigMaps that a pod's `spec` refers to, with repetitions.
pub fn config_maps(spec: &Value) -> impl Iterator<Item = &str> {
    CONFIG_MAPS.names(spec)
}

/// The sources of all projected volumes of a pod's `spec`.
pub fn projections(spec: &Value) -> impl Iterator<Item = &Value> {
    items(&spec["volumes"]).flat_map(|volume| items(&volume["projected"]["sources"]))
}

impl References {
    fn names<'s>(&'static self, spec: &'s Value) -> impl Iterator<Item = &'s str> {
        let containers = CONTAINER_LISTS.iter().flat_map(|list| items(&spec[list]));
        let env = containers.flat_map(|container| {
            let whole = items(&container["envFrom"]).map(|source| &source[self.env_from]["name"]);
            let keys = items(&container["env"]).map(|variable| &variable["valueFrom"][self.env]["name"]);
            whole.chain(keys)
        });
        let volumes = items(&spec["volumes"])
            .flat_map(|volume| self.volume.iter().filter_map(|pointer| volume.pointer(pointer)));
        let projected = projections(spec).filter_map(|source| source.pointer(self.projected));
        names(env.chain(volumes).chain(projected))
    }
}

/// The items of a list; empty if the value is not a list.
pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn names<'v>(values: impl Iterator<Item = &'v Value>) -> impl Iterator<Item = &'v str> {
    values.filter_map(Value::as_str).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_references_of_a_pod_are_found() {
        let spec = json!({
            "imagePullSecrets": [{"name": "pull"}, {}],
            "initContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "init"}}}]}],
            "containers": [{
                "envFrom": [{"configMapRef": {"name": "env"}}, {"secretRef": {"name": "whole"}}],
                "env": [{"value": "x"}, {"valueFrom": {"secretKeyRef": {"name": "key"}}}],
            }],
            "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug"}}]}],
            "volumes": [
                {"secret": {"secretName": "mounted"}},
                {"configMap": {"name": "shown"}},
                {"csi": {"nodePublishSecretRef": {"name": "published"}}},
                {"projected": {"sources": [{"secret": {"name": "part"}}, {"configMap": {"name": "other"}}, {"downwardAPI": {}}]}},
            ],
        });
        let expected = ["pull", "whole", "key", "debug", "mounted", "published", "part"];
        assert_eq!(secrets(&spec).collect::<Vec<_>>(), expected);
        assert_eq!(config_maps(&spec).collect::<Vec<_>>(), ["init", "env", "shown", "other"]);
        assert_eq!(projections(&spec).count(), 3);
        assert_eq!(secrets(&json!({"volumes": null})).count(), 0);
    }
}

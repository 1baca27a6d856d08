//! The objects that operations create, from templates or by default. Pure.

use super::operation::{CreateNodes, CreatePods, NodeLabel};
use super::template::Template;
use kstore_api::kind;
use kstore_client::Gvr;
use serde_json::{Value, json};

/// The label with which nodes are told apart.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Annotation of a CSINode: the in-tree plugins whose volumes its drivers attach.
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Versions that this server does not serve, with the kinds that have the same members in the served one. Templates of scheduler_perf have
/// such objects.
const SAME_MEMBERS: [(&str, &[&str], &str); 2] = [
    (
        "resource.k8s.io/v1beta2",
        &["DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
        "resource.k8s.io/v1",
    ),
    ("resource.k8s.io/v1alpha3", &["DeviceTaintRule"], "resource.k8s.io/v1"),
];
/// Sources of volumes with the member that tells the volumes apart.
const VOLUME_HANDLES: [(&str, &str); 3] =
    [("csi", "volumeHandle"), ("awsElasticBlockStore", "volumeID"), ("gcePersistentDisk", "pdName")];

/// An object to create.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NewObject {
    pub(super) resource: Gvr,
    /// Empty for an object of the cluster.
    pub(super) namespace: String,
    /// Empty if the API server generates the name.
    pub(super) name: String,
    pub(super) json: String,
    /// Whether its status is written once more: the API server drops that of a create.
    pub(super) has_status: bool,
}

impl NewObject {
    /// The object in an error.
    pub(super) fn shown(&self) -> String {
        format!("{} {}/{}", self.resource, self.namespace, self.name)
    }

    pub(super) fn of(mut value: Value, namespace: &str) -> Result<Self, String> {
        let kind_name = text(&value["kind"]).to_owned();
        let api_version = served(text(&value["apiVersion"]), &kind_name).to_owned();
        value["apiVersion"] = json!(api_version);
        let row = kind::known(&api_version, &kind_name)
            .ok_or_else(|| format!("the kind {kind_name:?} of {api_version:?} is not built in"))?;
        let own = text(&value["metadata"]["namespace"]).to_owned();
        let namespace = match (row.namespaced, own.as_str(), namespace) {
            (false, ..) => String::new(),
            (true, "", "") => "default".to_owned(),
            (true, "", given) => given.to_owned(),
            (true, own, _) => own.to_owned(),
        };
        if row.namespaced {
            value["metadata"]["namespace"] = json!(namespace);
        }
        Ok(Self {
            resource: Gvr::new(row.group, row.version, row.plural),
            namespace,
            name: text(&value["metadata"]["name"]).to_owned(),
            json: value.to_string(),
            has_status: false,
        })
    }
}

/// The version in which an object of this version is created.
fn served<'v>(api_version: &'v str, kind: &str) -> &'v str {
    let same =
        SAME_MEMBERS.iter().find(|(version, kinds, _)| *version == api_version && kinds.contains(&kind));
    same.map_or(api_version, |(.., served)| served)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The object of a template: the `index`th of `count`.
pub(super) fn of_template(
    template: &Template,
    namespace: &str,
    index: usize,
    count: usize,
) -> Result<NewObject, String> {
    NewObject::of(render(template, index, count)?, namespace)
}

fn render(template: &Template, index: usize, count: usize) -> Result<Value, String> {
    let rendered = template.render(&json!({ "Index": index, "Count": count }))?;
    let value: Value = serde_yaml_ng::from_str(&rendered)
        .map_err(|error| format!("template {}: object {index}: {error}", template.file()))?;
    match value.is_object() {
        true => Ok(value),
        false => Err(format!("template {}: object {index} is no object", template.file())),
    }
}

/// The pod at `index` of an operation, without a template that of scheduler_perf; before it the volume and the claim that it uses, if it
/// has them. These are bound to each other: no controller does that here.
pub(super) fn pod(pods: &CreatePods, namespace: &str, index: usize) -> Result<Vec<NewObject>, String> {
    let count = pods.count;
    let mut value = match &pods.template {
        Some(template) => render(template, index, count)?,
        None => json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "pod-" },
            "spec": { "containers": [{
                "name": "pause", "image": "registry.k8s.io/pause:3.10",
                "resources": { "requests": { "cpu": "100m", "memory": "500Mi" } },
            }] },
        }),
    };
    let Some((volume, claim)) = &pods.volumes else {
        return Ok(vec![NewObject::of(value, namespace)?]);
    };
    let (mut volume, mut claim) = (render(volume, index, count)?, render(claim, index, count)?);
    let (claim_name, volume_name) = (format!("pvc-{index}"), format!("{namespace}-vol-{index}"));
    volume["metadata"]["name"] = json!(volume_name);
    volume["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name,
    });
    for (source, handle) in VOLUME_HANDLES {
        if volume["spec"][source].is_object() {
            volume["spec"][source][handle] = json!(volume_name);
        }
    }
    claim["metadata"]["name"] = json!(claim_name);
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("true");
    claim["spec"]["volumeName"] = json!(volume_name);
    for bound in [&mut volume, &mut claim] {
        bound["status"] = json!({ "phase": "Bound" });
    }
    value["spec"]["volumes"] =
        json!([{ "name": "vol", "persistentVolumeClaim": { "claimName": claim_name } }]);
    let bound =
        |value| NewObject::of(value, namespace).map(|object| NewObject { has_status: true, ..object });
    Ok(vec![bound(volume)?, bound(claim)?, NewObject::of(value, namespace)?])
}

/// A namespace of an operation.
pub(super) fn namespace(
    template: Option<&Template>,
    name: &str,
    index: usize,
    count: usize,
) -> Result<NewObject, String> {
    let mut value = match template {
        Some(template) => render(template, index, count)?,
        None => json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {} }),
    };
    value["metadata"]["name"] = json!(name);
    NewObject::of(value, "")
}

/// The node at `index` of an operation, without a template that of scheduler_perf, which is ready; and its CSINode, if it has one.
pub(super) fn node(nodes: &CreateNodes, index: usize) -> Result<Vec<NewObject>, String> {
    let mut value = match &nodes.template {
        Some(template) => render(template, index, nodes.count)?,
        None => json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "generateName": "scheduler-perf-" },
            "status": {
                "capacity": { "pods": "110", "cpu": "4", "memory": "32Gi" },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        }),
    };
    let labelled = match &nodes.label {
        Some(NodeLabel::InTurn(key, values)) => Some((key, values[index % values.len()].clone())),
        Some(NodeLabel::Unique(key)) => Some((key, format!("node-{index}"))),
        None => None,
    };
    if let Some((key, label)) = labelled {
        value["metadata"]["labels"][key] = json!(label);
    }
    if value["status"]["allocatable"].is_null() {
        value["status"]["allocatable"] = value["status"]["capacity"].clone();
    }
    for (resource, amount) in &nodes.allocatable {
        value["status"]["allocatable"][resource] = json!(amount);
        value["status"]["capacity"][resource] = json!(amount);
    }
    if nodes.declared_features > 0 {
        let mut names: Vec<_> = (1..=nodes.declared_features).map(|at| format!("Feature{at}")).collect();
        names.sort();
        value["status"]["declaredFeatures"] = json!(names);
    }
    let metadata = &mut value["metadata"];
    let name = match metadata["name"].as_str() {
        Some(name) => name.to_owned(),
        None => {
            format!("{}{}-{index}", metadata["generateName"].as_str().unwrap_or_default(), nodes.operation)
        }
    };
    metadata["name"] = json!(name);
    // As scheduler_perf does, which chooses the names for it, too.
    metadata["labels"][HOSTNAME] = json!(name);
    let Some(csi) = &nodes.csi else { return Ok(vec![NewObject::of(value, "")?]) };
    let drivers = csi.counts.iter().map(|(driver, count)| {
        json!({ "name": driver, "nodeID": name, "topologyKeys": [], "allocatable": { "count": count } })
    });
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {
            "name": name, "annotations": { MIGRATED_PLUGINS: csi.migrated_plugins.join(",") },
        },
        "spec": { "drivers": drivers.collect::<Vec<_>>() },
    });
    Ok(vec![NewObject::of(value, "")?, NewObject::of(csi_node, "")?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn values(objects: Result<Vec<NewObject>, String>) -> Vec<(NewObject, Value)> {
        let parsed = |object: NewObject| {
            let value = serde_json::from_str(&object.json).unwrap();
            (object, value)
        };
        objects.unwrap().into_iter().map(parsed).collect()
    }

    fn value(objects: Result<Vec<NewObject>, String>) -> (NewObject, Value) {
        values(objects).pop().unwrap()
    }

    fn pods(template: Option<&str>) -> CreatePods {
        CreatePods {
            count: 5,
            namespace: String::new(),
            template: template.map(|text| Arc::new(Template::parse("T", text).unwrap())),
            is_measured: false,
            waits: true,
            volumes: None,
            steady: None,
        }
    }

    #[test]
    fn nodes_get_labels_in_turn_and_further_resources() {
        let nodes = CreateNodes {
            operation: 4,
            count: 3,
            template: None,
            label: Some(NodeLabel::InTurn("zone".to_owned(), vec!["a".to_owned(), "b".to_owned()])),
            allocatable: [("gpu".to_owned(), "2".to_owned())].into(),
            csi: None,
            declared_features: 10,
        };
        let zones: Vec<_> =
            (0..3).map(|index| value(node(&nodes, index)).1["metadata"]["labels"]["zone"].clone()).collect();
        assert_eq!(zones, ["a", "b", "a"]);
        let (object, value) = value(node(&nodes, 0));
        assert_eq!((object.resource, object.namespace.as_str()), (Gvr::new("", "v1", "nodes"), ""));
        let name = "scheduler-perf-4-0";
        assert_eq!((object.name.as_str(), &value["metadata"]["labels"][HOSTNAME]), (name, &json!(name)));
        assert_eq!(
            value["status"]["allocatable"],
            json!({"pods": "110", "cpu": "4", "memory": "32Gi", "gpu": "2"})
        );
        let features = value["status"]["declaredFeatures"].as_array().unwrap();
        assert_eq!((features.len(), &features[1]), (10, &json!("Feature10")), "they are sorted as text");
    }

    #[test]
    fn templates_know_the_index_and_their_namespace_wins() {
        let template =
            "{apiVersion: v1, kind: Pod, metadata: {name: p-{{.Index}}-of-{{.Count}}, namespace: own}}";
        let (object, _) = value(pod(&pods(Some(template)), "given", 2));
        assert_eq!((object.namespace.as_str(), object.name.as_str()), ("own", "p-2-of-5"));
        let (object, value) = value(pod(&pods(None), "given", 2));
        assert_eq!((object.namespace.as_str(), &value["metadata"]["namespace"]), ("given", &json!("given")));
        let lamp = Arc::new(Template::parse("T", "{apiVersion: v1, kind: Lamp}").unwrap());
        assert_eq!(
            of_template(&lamp, "", 0, 1),
            Err("the kind \"Lamp\" of \"v1\" is not built in".to_owned())
        );
        let text = Template::parse("T", "text").unwrap();
        assert_eq!(of_template(&text, "", 0, 1), Err("template T: object 0 is no object".to_owned()));
    }

    #[test]
    fn versions_with_the_members_of_the_served_one_are_created_as_that() {
        let created = |version: &str, kind: &str| {
            let value = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "x" } });
            NewObject::of(value, "")
                .map(|object| (object.resource, object.json.contains("resource.k8s.io/v1\"")))
        };
        let resource = |plural| Gvr::new("resource.k8s.io", "v1", plural);
        for (version, kind, plural) in [
            ("v1", "DeviceClass", "deviceclasses"),
            ("v1beta2", "ResourceSlice", "resourceslices"),
            ("v1beta2", "ResourceClaimTemplate", "resourceclaimtemplates"),
            ("v1alpha3", "DeviceTaintRule", "devicetaintrules"),
        ] {
            assert_eq!(created(&format!("resource.k8s.io/{version}"), kind), Ok((resource(plural), true)));
        }
        // Members of older ones are called otherwise.
        for version in ["v1beta1", "v1alpha3"] {
            let refused = created(&format!("resource.k8s.io/{version}"), "ResourceClaim").unwrap_err();
            assert!(refused.contains("is not built in"), "{refused}");
        }
    }

    #[test]
    fn a_pod_with_a_volume_comes_after_its_bound_claim() {
        let template = |text: &str| Arc::new(Template::parse("T", text).unwrap());
        let volume = template("{apiVersion: v1, kind: PersistentVolume, spec: {csi: {driver: d}}}");
        let claim = template("{apiVersion: v1, kind: PersistentVolumeClaim, spec: {}}");
        let pods = CreatePods { volumes: Some((volume, claim)), ..pods(None) };
        let [(volume, volume_value), (claim, claim_value), (pod, pod_value)] =
            values(pod(&pods, "ns", 3)).try_into().unwrap();
        let names = [&volume, &claim, &pod].map(|object| (object.name.as_str(), object.has_status));
        assert_eq!(names, [("ns-vol-3", true), ("pvc-3", true), ("", false)]);
        assert_eq!(volume_value["spec"]["csi"], json!({"driver": "d", "volumeHandle": "ns-vol-3"}));
        assert_eq!(volume_value["spec"]["claimRef"]["name"], "pvc-3");
        assert_eq!(claim_value["spec"]["volumeName"], "ns-vol-3");
        assert_eq!(pod_value["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "pvc-3");
    }
}

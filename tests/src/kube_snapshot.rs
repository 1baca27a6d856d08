//! Snapshot files of an etcd as a kube-apiserver of Kubernetes 1.36 fills it: built-in objects in protobuf, by the shapes of values that
//! one stored, custom objects in JSON, each version at a revision of its own, with no notes of writers. They are made without either
//! program, and with any number of pods.

use kstore_api::kind;
use kstore_api::wire::protobuf;
use kstore_nondet::Rng;
use kstore_store::maintenance::{self, RestoreError, VersionWriter};
use kstore_store::{EngineKind, LeaseId, Revision, Stamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Values that a kube-apiserver 1.36.2 stored: a line has key, value in base64, and the object that the server answered.
const STORED: &str = include_str!("../../server/src/import/testdata/kube_apiserver_1_36_2.jsonl");

/// Number of namespaces over which the objects are spread: `team-0` to `team-9`.
pub const NAMESPACES: usize = 10;
/// Pods of a node.
pub const PODS_OF_NODE: usize = 100;
/// Pods of each custom object.
const PODS_OF_WIDGET: usize = 50;

/// What a snapshot has.
#[derive(Clone, Copy, Debug)]
pub struct KubeSnapshot {
    /// Number of objects.
    pub objects: usize,
    /// Number of versions of objects, without deletions.
    pub versions: usize,
    /// The revision at which all objects were as they were created.
    pub created: i64,
    /// The newest revision.
    pub newest: i64,
}

/// Writes a snapshot with `pods` pods, each created and then running on a node, a tenth of them labelled later by `kubectl`; their nodes, a
/// custom kind with objects, a ConfigMap and a Secret of each namespace, and a deleted ConfigMap. `scratch` is an empty folder of the
/// caller's.
///
/// # Errors
/// A file cannot be written.
pub fn write_kube_snapshot(file: &Path, scratch: &Path, pods: usize) -> io::Result<KubeSnapshot> {
    let data = scratch.join("store");
    let mut contents = KubeSnapshot { objects: 0, versions: 0, created: 0, newest: 0 };
    let fill = |writer: &mut VersionWriter<'_, '_>| {
        let mut etcd = Etcd { writer, revision: 1, keys: BTreeMap::new(), versions: 0 };
        contents.created = fill_etcd(&mut etcd, pods)?;
        contents.objects = etcd.keys.len();
        contents.versions = etcd.versions;
        contents.newest = etcd.revision;
        Ok::<_, RestoreError>(Revision::FIRST)
    };
    maintenance::create(&data, EngineKind::Segments, &Rng::seeded(1), fill).map_err(io::Error::other)?;
    maintenance::save(&data, file, &mut |_, _| {}).map_err(io::Error::other)?;
    std::fs::remove_dir_all(&data)?;
    Ok(contents)
}

/// The etcd that is filled.
struct Etcd<'w, 'a, 'p> {
    writer: &'w mut VersionWriter<'a, 'p>,
    /// The newest revision.
    revision: i64,
    /// Revision of the creation and number of versions of each existing key.
    keys: BTreeMap<String, (i64, i64)>,
    versions: usize,
}

impl Etcd<'_, '_, '_> {
    /// Stores a built-in object as kube-apiserver does.
    fn put(&mut self, object: &Value) -> Result<(), RestoreError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let row = kind::known(text("/apiVersion"), text("/kind")).expect("the kind is in the table");
        let key = row.storage_row().storage_key(text("/metadata/namespace"), text("/metadata/name"));
        let message = protobuf::encode(object).expect("the object is of its kind");
        self.put_bytes(&key, &message)
    }

    fn put_bytes(&mut self, key: &str, value: &[u8]) -> Result<(), RestoreError> {
        self.revision += 1;
        let (created, version) =
            self.keys.get(key).map_or((self.revision, 1), |(created, n)| (*created, n + 1));
        self.keys.insert(key.to_owned(), (created, version));
        let stamp = Stamp {
            create_revision: Revision(created),
            mod_revision: Revision(self.revision),
            version,
            lease: LeaseId(0),
        };
        self.versions += 1;
        self.writer.put(key.as_bytes(), value, stamp)
    }

    fn delete(&mut self, key: &str) -> Result<(), RestoreError> {
        self.revision += 1;
        self.keys.remove(key);
        self.writer.delete(key.as_bytes(), Revision(self.revision))
    }
}

/// Fills an etcd; returns the revision at which all objects were as they were created.
fn fill_etcd(etcd: &mut Etcd<'_, '_, '_>, pods: usize) -> Result<i64, RestoreError> {
    for namespace in (0..NAMESPACES).map(|number| format!("team-{number}")) {
        etcd.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("", &namespace, 1),
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}))?;
        etcd.put(&settings(&namespace, "one"))?;
        etcd.put(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata(&namespace, "login", 2),
            "type": "Opaque", "data": {"password": "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"}}),
        )?;
    }
    let old = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("team-0", "old", 3), "data": {"k": "v"}});
    etcd.put(&old)?;
    let definition = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.ex.io";
    etcd.put_bytes(definition, widget_definition().to_string().as_bytes())?;
    for number in 0..pods.div_ceil(PODS_OF_NODE) {
        etcd.put(&node(number))?;
    }
    for number in 0..pods.div_ceil(PODS_OF_WIDGET) {
        put_widget(etcd, number, 1)?;
    }
    let shape = recorded("/registry/pods/");
    for number in 0..pods {
        etcd.put(&pod(&shape, number, PodLife::Created))?;
    }
    let created = etcd.revision;
    for number in 0..pods {
        etcd.put(&pod(&shape, number, PodLife::Running))?;
    }
    for number in (0..pods).step_by(10) {
        etcd.put(&pod(&shape, number, PodLife::Labelled))?;
    }
    for number in 0..pods.div_ceil(PODS_OF_WIDGET) {
        put_widget(etcd, number, 2)?;
    }
    etcd.delete("/registry/configmaps/team-0/old")?;
    etcd.put(&settings("team-0", "two"))?;
    Ok(created)
}

/// The object of a recorded value.
fn recorded(prefix: &str) -> Value {
    let line = STORED.lines().find(|line| line[2..].starts_with(prefix)).expect("there is such a value");
    let (_, _, mut object): (String, String, Value) =
        serde_json::from_str(line).expect("a line has three values");
    object["metadata"].as_object_mut().expect("an object has metadata").remove("resourceVersion");
    object
}

/// A uid by the kind's number and the object's.
fn uid(kind: usize, number: usize) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

fn metadata(namespace: &str, name: &str, kind: usize) -> Value {
    let number = namespace.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let mut metadata =
        json!({"name": name, "uid": uid(kind, number), "creationTimestamp": "2026-01-02T03:04:05Z"});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    metadata
}

/// An entry of managed fields.
fn managed(manager: &str, second: u32, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "time": format!("2026-11-30T14:00:{second:02}Z"),
        "fieldsType": "FieldsV1", "fieldsV1": fields})
}

fn settings(namespace: &str, value: &str) -> Value {
    let mut metadata = metadata(namespace, "settings", 4);
    let second = if value == "one" { 5 } else { 40 };
    metadata["managedFields"] = json!([managed("kubectl-edit", second, json!({"f:data": {"f:mode": {}}}))]);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mode": value}})
}

fn node(number: usize) -> Value {
    let mut node = recorded("/registry/minions/");
    let name = format!("node-{number}");
    node["metadata"]["name"] = json!(name);
    node["metadata"]["uid"] = json!(uid(5, number));
    node["metadata"]["labels"] = json!({"kubernetes.io/hostname": name});
    node["spec"] = json!({"providerID": format!("cloud://{number}")});
    node["status"]["addresses"] = json!([{"type": "Hostname", "address": name}]);
    node["status"]["allocatable"] = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    for member in ["volumesInUse", "volumesAttached"] {
        node["status"].as_object_mut().expect("a node has a status").remove(member);
    }
    node
}

/// How far a pod is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodLife {
    Created,
    Running,
    Labelled,
}

fn pod(shape: &Value, number: usize, life: PodLife) -> Value {
    let mut pod = shape.clone();
    pod["metadata"]["name"] = json!(format!("pod-{number}"));
    pod["metadata"]["namespace"] = json!(format!("team-{}", number % NAMESPACES));
    pod["metadata"]["uid"] = json!(uid(6, number));
    pod["metadata"]["labels"] = json!({"app": "web"});
    if life == PodLife::Created {
        return pod;
    }
    let started = "2026-01-02T03:04:10Z";
    pod["spec"]["nodeName"] = json!(format!("node-{}", number / PODS_OF_NODE));
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": started});
    let container = json!({"name": "main", "image": "nginx", "imageID": "nginx", "ready": true, "restartCount": 0, "started": true,
        "containerID": format!("containerd://{}", uid(7, number)), "state": {"running": {"startedAt": started}}});
    let address = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    pod["status"] = json!({"phase": "Running", "qosClass": "BestEffort", "startTime": started, "podIP": address,
        "podIPs": [{"ip": address}], "containerStatuses": [container],
        "conditions": conditions});
    let mut kubelet =
        managed("kubelet", 10, json!({"f:status": {"f:phase": {}, "f:podIP": {}, "f:startTime": {}}}));
    kubelet["subresource"] = json!("status");
    let mut entries = vec![shape["metadata"]["managedFields"][0].clone(), kubelet];
    if life == PodLife::Labelled {
        pod["metadata"]["labels"]["track"] = json!("stable");
        entries.push(managed("kubectl-label", 30, json!({"f:metadata": {"f:labels": {"f:track": {}}}})));
    }
    pod["metadata"]["managedFields"] = json!(entries);
    pod
}

/// The definition of the custom kind, as a kube-apiserver stores it once the kind is served.
fn widget_definition() -> Value {
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let condition = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": reason,
        "lastTransitionTime": "2026-01-02T03:04:05Z"})
    };
    json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": metadata("", "widgets.ex.io", 8),
        "spec": {"group": "ex.io", "names": names, "scope": "Namespaced", "conversion": {"strategy": "None"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]},
        "status": {"acceptedNames": names, "storedVersions": ["v1"],
            "conditions": [condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")]}})
}

fn put_widget(etcd: &mut Etcd<'_, '_, '_>, number: usize, size: usize) -> Result<(), RestoreError> {
    let (namespace, name) = (format!("team-{}", number % NAMESPACES), format!("widget-{number}"));
    let mut metadata = metadata(&namespace, &name, 9);
    metadata["uid"] = json!(uid(9, number));
    metadata["generation"] = json!(size);
    let widget =
        json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": size}});
    etcd.put_bytes(&format!("/registry/ex.io/widgets/{namespace}/{name}"), widget.to_string().as_bytes())
}

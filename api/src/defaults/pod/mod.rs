//! Defaults of pods and pod templates.
//!
//! Follows `SetDefaults_Pod`, `SetDefaults_PodSpec`, `SetDefaults_Container` and `SetDefaults_Probe`.

mod reference;
pub(super) mod volume;
mod whole;

use super::{default, default_nonzero, items, make, member};
use serde_json::{Map, Value, json};

/// Sets the defaults of a Pod: those of templates, and those that only pods have.
pub(crate) fn pod(object: &mut Value) {
    drop_init_container_annotations(object);
    addresses(object);
    let spec = make(object, "spec");
    default(spec, "enableServiceLinks", true);
    pod_spec(spec);
    let host_network = spec["hostNetwork"] == true;
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            requests_from_limits(container);
            if host_network {
                host_ports(container);
            }
        }
    }
    whole::resources(spec);
}

/// Sets the defaults of the pod template in a member of a spec; an absent template gets them, too.
pub(crate) fn template(owner: &mut Value, name: &str) {
    let template = make(owner, name);
    drop_init_container_annotations(template);
    pod_spec(make(template, "spec"));
}

/// Sets the defaults of a pod template that is a pointer in Kubernetes: an absent one stays absent.
pub(crate) fn optional_template(owner: &mut Value, name: &str) {
    if member(owner, name).is_some() {
        template(owner, name);
    }
}

/// Drops the annotations in which old versions kept init containers, as `dropInitContainerAnnotations` of Kubernetes.
fn drop_init_container_annotations(object: &mut Value) {
    const OLD: [&str; 4] = [
        "pod.beta.kubernetes.io/init-containers",
        "pod.alpha.kubernetes.io/init-containers",
        "pod.beta.kubernetes.io/init-container-statuses",
        "pod.alpha.kubernetes.io/init-container-statuses",
    ];
    let Some(metadata) = member(object, "metadata") else { return };
    let Some(annotations) = member(metadata, "annotations").and_then(Value::as_object_mut) else { return };
    let before = annotations.len();
    annotations.retain(|key, _| !OLD.contains(&key.as_str()));
    if annotations.is_empty() && before > 0 {
        metadata.as_object_mut().map(|metadata| metadata.remove("annotations"));
    }
}

/// Makes the first of a pod's addresses its address, as the conversions of `PodStatus` in Kubernetes do: there is one list, and
/// a client that states only the address, or another one, means a list of this address.
fn addresses(object: &mut Value) {
    let Some(status) = member(object, "status") else { return };
    let own = status["podIP"].as_str().unwrap_or_default().to_owned();
    let first = status["podIPs"][0]["ip"].as_str().unwrap_or_default().to_owned();
    let has_list = status["podIPs"].as_array().is_some_and(|list| !list.is_empty());
    if !own.is_empty() && own != first {
        status["podIPs"] = json!([{"ip": own}]);
    } else if has_list && own.is_empty() && !first.is_empty() {
        status["podIP"] = first.into();
    }
}

fn pod_spec(spec: &mut Value) {
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "restartPolicy", "Always");
    default(spec, "schedulerName", "default-scheduler");
    default(spec, "securityContext", json!({}));
    default(spec, "terminationGracePeriodSeconds", 30);
    service_account(spec);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items(spec, list).for_each(container);
    }
    items(spec, "volumes").for_each(volume::volume);
}

/// Copies the service account name between its current and its deprecated field.
fn service_account(spec: &mut Value) {
    let name = [&spec["serviceAccountName"], &spec["serviceAccount"]]
        .into_iter()
        .find_map(|name| name.as_str().filter(|name| !name.is_empty()))
        .map(str::to_owned);
    if let Some(name) = name {
        spec["serviceAccount"] = name.clone().into();
        spec["serviceAccountName"] = name.into();
    }
}

fn container(container: &mut Value) {
    // Each update of a pod passes here, and reading a reference takes longer than all other defaults.
    if container["imagePullPolicy"].is_null() {
        let policy = pull_policy(container["image"].as_str().unwrap_or_default());
        default(container, "imagePullPolicy", policy);
    }
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        default(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        if let Some(source) = member(variable, "valueFrom") {
            field_ref(source);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = member(container, name) {
            probe_defaults(probe);
        }
    }
    if let Some(lifecycle) = member(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(handler) = member(lifecycle, name) {
                http_get(handler);
            }
        }
    }
}

/// Default pull policy of an image: `Always` for the latest image.
fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

/// Whether an image reference means the latest image: the tag `latest`, or neither tag nor digest. A text that is no reference
/// has no tag.
fn is_latest(image: &str) -> bool {
    if !reference::is_valid(image) {
        return false;
    }
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => digest.is_none(),
    }
}

fn probe_defaults(probe: &mut Value) {
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        default_nonzero(probe, name, value);
    }
    http_get(probe);
    if let Some(grpc) = member(probe, "grpc") {
        default(grpc, "service", "");
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = member(handler, "httpGet") {
        default(get, "path", "/");
        default(get, "scheme", "HTTP");
    }
}

fn field_ref(source: &mut Value) {
    if let Some(reference) = member(source, "fieldRef") {
        default(reference, "apiVersion", "v1");
    }
}

/// Sets the missing requests of a container to its limits.
fn requests_from_limits(container: &mut Value) {
    let Some(resources) = member(container, "resources") else { return };
    let Some(limits) = resources["limits"].as_object().filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    if resources["requests"].is_null() {
        resources["requests"] = Value::Object(Map::new());
    }
    for (name, limit) in limits {
        default(&mut resources["requests"], &name, limit);
    }
}

/// Sets host ports to container ports, for pods on the host network.
fn host_ports(container: &mut Value) {
    for port in items(container, "ports") {
        if let Some(number) = port["containerPort"].as_i64() {
            default_nonzero(port, "hostPort", number);
        }
    }
}

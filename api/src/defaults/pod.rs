//! Defaults of pods and pod templates.

pub(super) mod volume;
mod whole;

use serde_json::{Map, Value, json};

use super::{default, default_nonzero, items, make, member};

/// Sets the defaults of a Pod: those of templates, and those that only pods have.
pub(crate) fn pod(object: &mut Value) {
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

/// Sets the defaults of the pod template in a member of a spec.
pub(crate) fn template(owner: &mut Value, name: &str) {
    if let Some(template) = member(owner, name) {
        pod_spec(make(template, "spec"));
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
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    default(container, "imagePullPolicy", policy);
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

/// Whether an image reference means the latest image: the tag `latest`, or neither tag nor digest.
fn is_latest(image: &str) -> bool {
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

//! Objects as table rows, as `kubectl get` prints them: columns and cells by kind. The apiserver builds the
//! `Table` with rows and metadata. Cells are strings, integers and booleans; times become durations before
//! the given `now`.

mod admission;
mod autoscaling;
mod batch;
mod cluster;
mod devices;
mod duration;
mod event;
mod flowcontrol;
mod networking;
mod node;
mod pod;
mod rbac;
mod registration;
mod service;
mod storage;
mod text;
mod workload;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::kind::Resource;
use crate::meta;

pub use duration::{human_duration, since};

/// Table column, with the fields of `columnDefinitions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Header; kubectl prints it in capitals.
    pub name: &'static str,
    /// OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// OpenAPI format; `name` marks the object's name.
    pub format: &'static str,
    /// Description of the cells.
    pub description: &'static str,
    /// Priority: 0 is always shown, higher ones only with `-o wide`.
    pub priority: i32,
}

const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

/// Column of texts.
const fn text(name: &'static str, description: &'static str) -> Column {
    column(name, "string", description)
}

/// Column of integers.
const fn number(name: &'static str, description: &'static str) -> Column {
    column(name, "integer", description)
}

/// Column of booleans.
const fn flag(name: &'static str, description: &'static str) -> Column {
    column(name, "boolean", description)
}

impl Column {
    /// Sets the format `name`.
    const fn name_format(mut self) -> Self {
        self.format = "name";
        self
    }

    /// Shows the column only with `-o wide`.
    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

const NAME: Column =
    Column { name: "Name", kind: "string", format: "name", description: "Name of the object.", priority: 0 };
const AGE: Column = text("Age", "Time since the object was created.");
const CREATED_AT: Column = Column {
    name: "Created At",
    kind: "date",
    format: "",
    description: "When the object was created.",
    priority: 0,
};
const CONTAINERS: Column = text("Containers", "Names of the containers in the template.").wide();
const IMAGES: Column = text("Images", "Images of the containers in the template.").wide();
const SELECTOR: Column = text("Selector", "Label selector.").wide();

/// Columns of a kind, and the function that computes the cells.
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const fn printer(columns: &'static [Column], cells: fn(&Value, Timestamp) -> Vec<Value>) -> Printer {
    Printer { columns, cells }
}

fn printer_of(resource: &Resource) -> Printer {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::POD,
        ("", "PodTemplate") => workload::POD_TEMPLATE,
        ("", "ReplicationController") => workload::REPLICATION_CONTROLLER,
        ("", "Service") => service::SERVICE,
        ("", "Endpoints") => networking::ENDPOINTS,
        ("", "Node") => node::NODE,
        ("", "Event") => event::CORE,
        ("", "Namespace") => cluster::NAMESPACE,
        ("", "ConfigMap") => cluster::CONFIG_MAP,
        ("", "Secret") => cluster::SECRET,
        ("", "ServiceAccount") => cluster::SERVICE_ACCOUNT,
        ("", "ResourceQuota") => cluster::RESOURCE_QUOTA,
        ("", "ComponentStatus") => cluster::COMPONENT_STATUS,
        ("", "PersistentVolume") => storage::VOLUME,
        ("", "PersistentVolumeClaim") => storage::CLAIM,
        ("apps", "Deployment") => workload::DEPLOYMENT,
        ("apps", "ReplicaSet") => workload::REPLICA_SET,
        ("apps", "StatefulSet") => workload::STATEFUL_SET,
        ("apps", "DaemonSet") => workload::DAEMON_SET,
        ("apps", "ControllerRevision") => workload::CONTROLLER_REVISION,
        ("batch", "Job") => batch::JOB,
        ("batch", "CronJob") => batch::CRON_JOB,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::printer(resource.version),
        ("policy", "PodDisruptionBudget") => autoscaling::DISRUPTION_BUDGET,
        ("discovery.k8s.io", "EndpointSlice") => networking::ENDPOINT_SLICE,
        ("networking.k8s.io", "Ingress") => networking::INGRESS,
        ("networking.k8s.io", "IngressClass") => networking::INGRESS_CLASS,
        ("networking.k8s.io", "NetworkPolicy") => networking::NETWORK_POLICY,
        ("networking.k8s.io", "IPAddress") => networking::IP_ADDRESS,
        ("networking.k8s.io", "ServiceCIDR") => networking::SERVICE_CIDR,
        ("events.k8s.io", "Event") => event::EVENT,
        ("coordination.k8s.io", "Lease") => cluster::LEASE,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("node.k8s.io", "RuntimeClass") => cluster::RUNTIME_CLASS,
        ("certificates.k8s.io", "CertificateSigningRequest") => cluster::CERTIFICATE_REQUEST,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => rbac::BINDING,
        ("storage.k8s.io", kind) => storage::printer(kind),
        ("admissionregistration.k8s.io", kind) => admission::printer(kind),
        ("resource.k8s.io", kind) => devices::printer_of(kind),
        ("apiregistration.k8s.io", "APIService") => registration::API_SERVICE,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flowcontrol::FLOW_SCHEMA,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flowcontrol::PRIORITY_LEVEL,
        _ => DEFAULT,
    }
}

/// Columns of kinds without their own: Role, ClusterRole, LimitRange, and lists of custom resources without a
/// schema.
const DEFAULT: Printer = printer(&[NAME, CREATED_AT], |object, _| {
    vec![meta::name(object).into(), meta::creation_timestamp(object).into()]
});

/// Columns of an `autoscaling/v1` Scale, the body of `/scale`.
const SCALE: Printer = printer(
    &[
        text("Name", "Name of the object."),
        number("Desired", "Desired number of replicas."),
        number("Available", "Number of replicas."),
        AGE,
    ],
    |scale, now| {
        vec![
            name(scale),
            text::count(&scale["spec"]["replicas"]),
            text::count(&scale["status"]["replicas"]),
            age(scale, now),
        ]
    },
);

/// All columns of a kind; clients hide those of higher priority.
pub fn columns(resource: &Resource) -> &'static [Column] {
    printer_of(resource).columns
}

/// Cells of one object, one for each column.
pub fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    (printer_of(resource).cells)(object, now)
}

/// Columns of `/scale`.
pub fn scale_columns() -> &'static [Column] {
    SCALE.columns
}

/// Cells of one Scale.
pub fn scale_cells(scale: &Value, now: Timestamp) -> Vec<Value> {
    (SCALE.cells)(scale, now)
}

/// Columns of a `Status` that is the response to a table request.
pub const STATUS_COLUMNS: &[Column] = &[
    text("Status", "Status of the request."),
    text("Reason", "Reason of the failure."),
    text("Message", "Message of the failure."),
];

/// Conditions of a row, which let clients hide finished pods. `None` for rows without.
pub fn row_conditions(resource: &Resource, object: &Value) -> Option<Value> {
    if (resource.group, resource.kind) != ("", "Pod") {
        return None;
    }
    let (reason, message) = match object["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn name(object: &Value) -> Value {
    meta::name(object).into()
}

/// The name, with a mark if an annotation makes the object the default of its kind.
fn marked(object: &Value, annotations: &[&str]) -> Value {
    let default = annotations.iter().any(|key| meta::annotation(object, key) == Some("true"));
    if default { format!("{} (default)", meta::name(object)).into() } else { name(object) }
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(meta::creation_timestamp(object), now).into()
}

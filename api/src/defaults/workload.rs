//! Defaults of workloads: apps/v1 and ReplicationControllers.
//!
//! Follows `SetDefaults_Deployment`, `SetDefaults_DaemonSet`, `SetDefaults_StatefulSet` and `SetDefaults_ReplicaSet`.

use super::{default, items, make, member, pod, storage};
use crate::meta;
use crate::schema::decode::TEMPLATE_GENERATION;
use serde_json::{Map, Value};

pub(crate) fn deployment(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "progressDeadlineSeconds", 600);
    let strategy = make(spec, "strategy");
    default(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = make(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", "25%");
        default(rolling, "maxSurge", "25%");
    }
    pod::template(spec, "template");
}

pub(crate) fn replica_set(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "replicas", 1);
    pod::template(spec, "template");
}

pub(crate) fn replication_controller(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    labels_from_template(object, &labels);
    let spec = make(object, "spec");
    default(spec, "replicas", 1);
    let no_selector = spec["selector"].as_object().is_none_or(Map::is_empty);
    if no_selector && labels.is_object() {
        spec["selector"] = labels;
    }
    pod::optional_template(spec, "template");
}

/// Sets the labels of an object without labels to those of its template.
pub(super) fn labels_from_template(object: &mut Value, labels: &Value) {
    let none = meta::labels(object).is_none_or(Map::is_empty);
    if none && labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        meta::metadata_mut(object).insert("labels".to_owned(), labels.clone());
    }
}

pub(crate) fn stateful_set(object: &mut Value) {
    let spec = make(object, "spec");
    default(spec, "replicas", 1);
    default(spec, "revisionHistoryLimit", 10);
    default(spec, "podManagementPolicy", "OrderedReady");
    let strategy = make(spec, "updateStrategy");
    if strategy["type"].is_null() {
        strategy["type"] = "RollingUpdate".into();
        make(strategy, "rollingUpdate");
    }
    if strategy["type"] == "RollingUpdate"
        && let Some(rolling) = member(strategy, "rollingUpdate")
    {
        default(rolling, "partition", 0);
    }
    let retention = make(spec, "persistentVolumeClaimRetentionPolicy");
    default(retention, "whenDeleted", "Retain");
    default(retention, "whenScaled", "Retain");
    for claim in items(spec, "volumeClaimTemplates") {
        default(claim, "apiVersion", "v1");
        default(claim, "kind", "PersistentVolumeClaim");
        storage::claim(claim);
    }
    pod::template(spec, "template");
}

/// What Kubernetes adds to the defaults of StatefulSets since 1.37 (`MaxUnavailableStatefulSet`).
pub(super) fn stateful_set_since_1_37(object: &mut Value) {
    let strategy = make(make(object, "spec"), "updateStrategy");
    if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
        default(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
    }
}

pub(crate) fn daemon_set(object: &mut Value) {
    // Zero inside Kubernetes, whose v1 form always has the annotation: its author is the author of the object.
    if meta::annotation(object, TEMPLATE_GENERATION).is_none() {
        meta::set_annotation(object, TEMPLATE_GENERATION, "0");
    }
    let spec = make(object, "spec");
    default(spec, "revisionHistoryLimit", 10);
    let strategy = make(spec, "updateStrategy");
    default(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = make(strategy, "rollingUpdate");
        default(rolling, "maxUnavailable", 1);
        default(rolling, "maxSurge", 0);
    }
    pod::template(spec, "template");
}

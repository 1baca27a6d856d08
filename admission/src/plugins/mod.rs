//! The plugins, one per file, and the list of them in Kubernetes' order: first all may change the object, later all may
//! refuse it. A plugin is synchronous and without side effects: it reads the cluster through a
//! [`Cluster`](crate::plugin::Cluster) and may run several times for one request. What it does once per request, or waits
//! for, is kept in [`RequestEffects`](crate::request_effects::RequestEffects). The list and the `mod` lines are the only
//! places outside a plugin's file that name it.

mod always;
mod always_pull_images;
mod certificate_approval;
mod certificate_requester;
mod certificate_signing;
mod certificate_subject_restriction;
mod cluster_trust_bundle_attest;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_exec;
mod deny_service_external_ips;
mod device_admin_access;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod initializers;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_feature_validator;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod_group_protection;
mod pod_group_workload_exists;
mod pod_node_selector;
mod pod_resize_validator;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod policies;
mod priority;
mod rbac_escalation;
mod resource_quota;
mod runtime_class;
mod security_context_deny;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
#[cfg(test)]
mod tests;
mod tolerations;
mod webhooks;

use crate::plugin::Row;
use kstore_api::kind;
use kstore_api::resource::Resource;

/// The plugins in Kubernetes' order.
pub(crate) static PLUGINS: &[&Row] = &[
    &always::ALWAYS_ADMIT,
    &namespace_auto_provision::ROW,
    &namespace_lifecycle::ROW,
    &namespace_exists::ROW,
    &security_context_deny::ROW,
    &limit_pod_hard_anti_affinity_topology::ROW,
    &limit_ranger::ROW,
    &service_account::ROW,
    &node_restriction::ROW,
    &taint_nodes_by_condition::ROW,
    &always_pull_images::ROW,
    &image_policy_webhook::ROW,
    &pod_security::ROW,
    &pod_node_selector::ROW,
    &priority::ROW,
    &default_toleration_seconds::ROW,
    &pod_toleration_restriction::ROW,
    &deny_exec::DENY_ESCALATING_EXEC,
    &deny_exec::DENY_EXEC_ON_PRIVILEGED,
    &event_rate_limit::ROW,
    &extended_resource_toleration::ROW,
    &default_storage_class::ROW,
    &storage_object_in_use_protection::ROW,
    &pod_group_protection::ROW,
    &owner_references_permission_enforcement::ROW,
    &persistent_volume_claim_resize::ROW,
    &runtime_class::ROW,
    &certificate_approval::ROW,
    &certificate_signing::ROW,
    &cluster_trust_bundle_attest::ROW,
    &certificate_subject_restriction::ROW,
    &default_ingress_class::ROW,
    &deny_service_external_ips::ROW,
    &initializers::ROW,
    &pod_topology_labels::ROW,
    &pod_group_workload_exists::ROW,
    &node_declared_feature_validator::ROW,
    &pod_resize_validator::ROW,
    &certificate_requester::ROW,
    &device_admin_access::ROW,
    &rbac_escalation::ROW,
    // In Kubernetes it runs after webhooks and quotas.
    &always::ALWAYS_DENY,
    &policies::MUTATING,
    &webhooks::mutating::ROW,
    &policies::VALIDATING,
    &webhooks::validating::ROW,
    &resource_quota::ROW,
];

/// A row that must be in the table of kinds.
fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
    kind::lookup(group, version, plural).expect("plugins name rows of the table")
}

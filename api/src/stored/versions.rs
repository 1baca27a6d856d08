//! The versions in which releases of Kubernetes stored a kind, other than the storage version here.

use super::{definition, ingress};
use serde_json::{Value, json};

/// Changes an object of a former storage version into one of the present version; `apiVersion` is set by the caller.
pub(super) type Conversion = fn(&mut Value);

/// Former storage versions: apiVersion, kinds, and what to change.
///
/// Source: the storage versions of each release (`pkg/kubeapiserver/default_storage_factory_builder.go`,
/// `cmd/kube-apiserver/app/testing` and the version priorities in `pkg/apis/*/install`). A version is here if it has the members of the
/// present version, or if `Conversion` changes the others. Those of `resource.k8s.io/v1beta1` and older, of `discovery.k8s.io/v1beta1`, and
/// of everything that was alpha are not: such an object is refused.
const FORMER: &[(&str, &[&str], Conversion)] = &[
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"], definition::to_v1),
    ("networking.k8s.io/v1beta1", &["Ingress"], ingress::to_v1),
    ("policy/v1beta1", &["PodDisruptionBudget"], budget_to_v1),
    ("flowcontrol.apiserver.k8s.io/v1beta1", FLOW_CONTROL, shares_to_v1),
    ("flowcontrol.apiserver.k8s.io/v1beta2", FLOW_CONTROL, shares_to_v1),
    ("flowcontrol.apiserver.k8s.io/v1beta3", FLOW_CONTROL, same),
    ("admissionregistration.k8s.io/v1beta1", WEBHOOKS, same),
    ("admissionregistration.k8s.io/v1beta1", POLICIES, same),
    ("admissionregistration.k8s.io/v1alpha1", POLICIES, same),
    ("apiregistration.k8s.io/v1beta1", &["APIService"], same),
    ("apps/v1beta1", &["ControllerRevision", "Deployment", "StatefulSet"], same),
    ("apps/v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"], same),
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "NetworkPolicy", "ReplicaSet"], same),
    ("batch/v1beta1", &["CronJob"], same),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"], same),
    ("certificates.k8s.io/v1alpha1", &["ClusterTrustBundle"], same),
    ("coordination.k8s.io/v1beta1", &["Lease"], same),
    ("networking.k8s.io/v1alpha1", &["IPAddress", "ServiceCIDR"], same),
    ("networking.k8s.io/v1beta1", &["IPAddress", "IngressClass", "ServiceCIDR"], same),
    ("node.k8s.io/v1beta1", &["RuntimeClass"], same),
    ("rbac.authorization.k8s.io/v1alpha1", ROLES, same),
    ("rbac.authorization.k8s.io/v1beta1", ROLES, same),
    (
        "resource.k8s.io/v1beta2",
        &["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"],
        same,
    ),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"], same),
    ("storage.k8s.io/v1alpha1", &["VolumeAttributesClass"], same),
    (
        "storage.k8s.io/v1beta1",
        &[
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
        same,
    ),
];

const FLOW_CONTROL: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const ROLES: &[&str] = &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
const WEBHOOKS: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
const POLICIES: &[&str] = &[
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// The change that makes an object of a former storage version one of the present version; `None` if no release stored the kind in this
/// version, or if kstore cannot convert it.
pub(super) fn find(api_version: &str, kind: &str) -> Option<Conversion> {
    let is_it =
        |(version, kinds, _): &&(&str, &[&str], Conversion)| *version == api_version && kinds.contains(&kind);
    FORMER.iter().find(is_it).map(|(_, _, convert)| *convert)
}

/// All former storage versions of all kinds, for tests.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    FORMER.iter().flat_map(|(version, kinds, _)| kinds.iter().map(|kind| (*version, *kind)))
}

/// The members of both versions are the same.
fn same(_: &mut Value) {}

/// In `policy/v1beta1` an empty selector selects no pods, in `policy/v1` all: upstream's conversion
/// (`Convert_v1beta1_PodDisruptionBudget_To_policy_PodDisruptionBudget`) adds a requirement that no pod meets.
fn budget_to_v1(object: &mut Value) {
    let selector = &mut object["spec"]["selector"];
    let is_empty = |member: &Value| member.as_object().is_none_or(serde_json::Map::is_empty);
    let selects_all = selector.is_object()
        && is_empty(&selector["matchLabels"])
        && selector["matchExpressions"].as_array().is_none_or(Vec::is_empty);
    if selects_all {
        *selector = json!({"matchExpressions": [{
            "key": "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match", "operator": "Exists",
        }]});
    }
}

/// `assuredConcurrencyShares` is called `nominalConcurrencyShares` since `v1beta3`.
fn shares_to_v1(object: &mut Value) {
    let Some(limited) = object["spec"]["limited"].as_object_mut() else { return };
    if let Some(shares) = limited.remove("assuredConcurrencyShares") {
        limited.entry("nominalConcurrencyShares").or_insert(shares);
    }
}

//! Table from schema names to the `k8s-openapi` types with the schema, one line per kind.

use super::common;
use k8s_openapi as k8s;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::WatchEvent;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use schemars::SchemaGenerator;

/// Adds the schema `name`, and all that it refers to, to the generator. False if no type is known.
pub(super) fn add(generator: &mut SchemaGenerator, name: &str) -> bool {
    if name == common::WATCH_EVENT {
        generator.subschema_for::<WatchEvent<RawExtension>>();
        return true;
    }
    let Some((_, add)) = ROOTS.iter().find(|(root, _)| *root == name) else { return false };
    add(generator);
    true
}

/// Adds all known schemas.
#[cfg(test)]
pub(crate) fn add_all(generator: &mut SchemaGenerator) {
    add(generator, common::WATCH_EVENT);
    ROOTS.iter().for_each(|(_, add)| add(generator));
}

macro_rules! roots {
    ($($prefix:literal $path:path { $($kind:ident)* })*) => {
        const ROOTS: &[(&str, fn(&mut SchemaGenerator))] = &[
            $($((concat!($prefix, ".", stringify!($kind)), |generator| {
                use $path as package;
                generator.subschema_for::<package::$kind>();
            }),)*)*
        ];
    };
}

roots! {
    "io.k8s.apimachinery.pkg.api.resource" k8s::apimachinery::pkg::api::resource { Quantity }
    "io.k8s.api.core.v1" k8s::api::core::v1 {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    "io.k8s.api.apps.v1" k8s::api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    "io.k8s.api.batch.v1" k8s::api::batch::v1 { CronJob Job }
    "io.k8s.api.autoscaling.v1" k8s::api::autoscaling::v1 { HorizontalPodAutoscaler Scale }
    "io.k8s.api.autoscaling.v2" k8s::api::autoscaling::v2 { HorizontalPodAutoscaler }
    "io.k8s.api.networking.v1" k8s::api::networking::v1 {
        IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
    }
    "io.k8s.api.policy.v1" k8s::api::policy::v1 { Eviction PodDisruptionBudget }
    "io.k8s.api.rbac.v1" k8s::api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
    "io.k8s.api.storage.v1" k8s::api::storage::v1 {
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
    }
    "io.k8s.api.storagemigration.v1beta1" k8s::api::storagemigration::v1beta1 { StorageVersionMigration }
    "io.k8s.api.admissionregistration.v1" k8s::api::admissionregistration::v1 {
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    }
    "io.k8s.api.authentication.v1" k8s::api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview }
    "io.k8s.api.authorization.v1" k8s::api::authorization::v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    "io.k8s.api.certificates.v1" k8s::api::certificates::v1 { CertificateSigningRequest }
    "io.k8s.api.certificates.v1beta1" k8s::api::certificates::v1beta1 { ClusterTrustBundle }
    "io.k8s.api.coordination.v1" k8s::api::coordination::v1 { Lease }
    "io.k8s.api.discovery.v1" k8s::api::discovery::v1 { EndpointSlice }
    "io.k8s.api.events.v1" k8s::api::events::v1 { Event }
    "io.k8s.api.flowcontrol.v1" k8s::api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
    "io.k8s.api.node.v1" k8s::api::node::v1 { RuntimeClass }
    "io.k8s.api.resource.v1" k8s::api::resource::v1 {
        DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
    }
    "io.k8s.api.scheduling.v1" k8s::api::scheduling::v1 { PriorityClass }
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
        k8s::apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition }
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1" k8s::kube_aggregator::pkg::apis::apiregistration::v1 {
        APIService
    }
    "io.k8s.apimachinery.pkg.apis.meta.v1" k8s::apimachinery::pkg::apis::meta::v1 {
        APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta ObjectMeta Patch Status
    }
    "io.k8s.apimachinery.pkg.version" k8s::apimachinery::pkg::version { Info }
}

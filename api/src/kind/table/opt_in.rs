//! The rows of kinds that have a feature gate of their own, or that are off by default: each with the gate that it needs. A stable version
//! is served wherever its gate is on, another only if `--runtime-config` names it as well. `kind::opt_in` chooses among them.

use super::status;
use crate::gate::GateSet;
use crate::kind::OptionalKind;
use crate::name::NameRule;
use crate::resource::{ALL_VERBS, DefaultPropagation, GenerationRule, Resource};
use crate::schema;
use crate::version::{Minor, Versions};

group!(certificates_stable = "certificates.k8s.io", "certificates", "v1", certificates);
group!(certificates_beta = "certificates.k8s.io", "certificates", "v1beta1", certificates);
group!(groups_beta = "scheduling.k8s.io", "scheduling", "v1beta1", scheduling);
group!(groups_alpha = "scheduling.k8s.io", "scheduling", "v1alpha2", scheduling);
group!(resource_stable = "resource.k8s.io", "resource", "v1", resource);
group!(migration_stable = "storagemigration.k8s.io", "storagemigration", "v1", storage_migration);
group!(migration = "storagemigration.k8s.io", "storagemigration", "v1beta1", storage_migration);

/// Every kind that not each server of a version serves, in the order of [`super::RESOURCES`]: groups by priority, versions preferred first,
/// then by plural.
pub static OPT_IN: &[OptionalKind] = &[
    OptionalKind {
        gate: "ClusterTrustBundle",
        row: certificates_stable!(
            "clustertrustbundles",
            "clustertrustbundle",
            "ClusterTrustBundle",
            CLUSTER_TRUST_BUNDLE_V1
        )
        .cluster()
        .named(NameRule::PathSegment)
        .conditional()
        .stored_as("certificates.k8s.io", "v1beta1")
        .since(Minor::V37),
    },
    OptionalKind {
        gate: "PodCertificateRequest",
        row: certificates_stable!(
            "podcertificaterequests",
            "podcertificaterequest",
            "PodCertificateRequest",
            POD_CERTIFICATE_REQUEST
        )
        .subs(&[status("certificates.k8s.io", "v1", "PodCertificateRequest")])
        .conditional()
        .since(Minor::V37),
    },
    OptionalKind {
        gate: "ClusterTrustBundle",
        row: certificates_beta!(
            "clustertrustbundles",
            "clustertrustbundle",
            "ClusterTrustBundle",
            CLUSTER_TRUST_BUNDLE
        )
        .cluster()
        .named(NameRule::PathSegment)
        .conditional()
        .deprecated(Minor::V37, Some(40), "certificates.k8s.io/v1 ClusterTrustBundle"),
    },
    OptionalKind {
        gate: "GenericWorkload",
        row: groups_beta!("podgroups", "podgroup", "PodGroup", POD_GROUP)
            .subs(&[status("scheduling.k8s.io", "v1beta1", "PodGroup")])
            .since(Minor::V37),
    },
    OptionalKind {
        gate: "GenericWorkload",
        row: groups_beta!("workloads", "workload", "Workload", WORKLOAD).since(Minor::V37),
    },
    OptionalKind {
        gate: "GenericWorkload",
        row: groups_alpha!("podgroups", "podgroup", "PodGroup", POD_GROUP_ALPHA)
            .subs(&[status("scheduling.k8s.io", "v1alpha2", "PodGroup")])
            .only_in(Minor::V36),
    },
    OptionalKind {
        gate: "GenericWorkload",
        row: groups_alpha!("workloads", "workload", "Workload", WORKLOAD_ALPHA).only_in(Minor::V36),
    },
    OptionalKind {
        gate: "DRADeviceTaintRules",
        row: resource_stable!("devicetaintrules", "devicetaintrule", "DeviceTaintRule", DEVICE_TAINT_RULE)
            .cluster()
            .subs(&[status("resource.k8s.io", "v1", "DeviceTaintRule")])
            .generation(GenerationRule::Spec)
            .conditional()
            .since(Minor::V37),
    },
    OptionalKind {
        gate: "StorageVersionMigrator",
        row: migration_stable!(
            "storageversionmigrations",
            "storageversionmigration",
            "StorageVersionMigration",
            STORAGE_VERSION_MIGRATION_V1
        )
        .cluster()
        .subs(&[status("storagemigration.k8s.io", "v1", "StorageVersionMigration")])
        .conditional()
        .stored_as("storagemigration.k8s.io", "v1beta1")
        .since(Minor::V37),
    },
    OptionalKind {
        gate: "StorageVersionMigrator",
        row: migration!(
            "storageversionmigrations",
            "storageversionmigration",
            "StorageVersionMigration",
            STORAGE_VERSION_MIGRATION
        )
        .cluster()
        .subs(&[status("storagemigration.k8s.io", "v1beta1", "StorageVersionMigration")])
        .conditional()
        .since(Minor::V35)
        .deprecated(Minor::V37, Some(40), "storagemigration.k8s.io/v1 StorageVersionMigration"),
    },
];

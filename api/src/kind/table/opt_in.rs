//! The rows of kinds that are off by default, each with the feature gate that it needs besides
//! `--runtime-config`. `kind::opt_in` chooses among them.

use super::status;
use crate::kind::OptionalKind;
use crate::name::NameRule;
use crate::resource::{ALL_VERBS, DefaultPropagation, GenerationRule, Resource};
use crate::schema;
use crate::version::{Minor, Versions};

group!(certificates_beta = "certificates.k8s.io", "certificates", "v1beta1", certificates);
group!(migration = "storagemigration.k8s.io", "storagemigration", "v1beta1", storage_migration);

/// Every kind that a server serves only if asked, in the order of [`super::RESOURCES`].
pub static OPT_IN: &[OptionalKind] = &[
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
        .conditional(),
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
        .since(Minor::V35),
    },
];

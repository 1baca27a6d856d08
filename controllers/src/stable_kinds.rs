//! Kinds that Kubernetes has in a version since 1.37, most of them in `v1`, for which the client types are those of 1.36. A controller of
//! such a kind works with either version, whichever the server serves.

use k8s_openapi::api::certificates::v1beta1::{self as certificates, ClusterTrustBundleSpec};
use k8s_openapi::api::resource::v1beta2::{DeviceTaintRuleSpec, DeviceTaintRuleStatus};
use k8s_openapi::api::storagemigration::v1beta1::{
    self as storagemigration, StorageVersionMigrationSpec, StorageVersionMigrationStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, Metadata, NamespaceResourceScope, Resource};
use kstore_client::Kind;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// A ClusterTrustBundle of `certificates.k8s.io/v1`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ClusterTrustBundle {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: ClusterTrustBundleSpec,
}

/// A StorageVersionMigration of `storagemigration.k8s.io/v1`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct StorageVersionMigration {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Option<StorageVersionMigrationSpec>,
    pub(crate) status: Option<StorageVersionMigrationStatus>,
}

/// A DeviceTaintRule of `resource.k8s.io/v1`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct DeviceTaintRule {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: DeviceTaintRuleSpec,
    pub(crate) status: Option<DeviceTaintRuleStatus>,
}

/// The metadata of a PodCertificateRequest of `certificates.k8s.io/v1`. Controllers read no more of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct PodCertificateRequest {
    pub(crate) metadata: ObjectMeta,
}

/// A PodGroup of `scheduling.k8s.io/v1beta1`. Controllers change its metadata alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct PodGroup {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Value,
    #[serde(default)]
    pub(crate) status: Value,
}

/// A kind with the members of a ClusterTrustBundle.
pub(crate) trait TrustBundle: Kind + Clone {
    /// A bundle.
    fn new(metadata: ObjectMeta, spec: ClusterTrustBundleSpec) -> Self;

    /// The signer and its certificates.
    fn spec(&self) -> &ClusterTrustBundleSpec;

    /// The signer and its certificates, to change them.
    fn spec_mut(&mut self) -> &mut ClusterTrustBundleSpec;
}

/// A kind with the members of a StorageVersionMigration.
pub(crate) trait Migration: Kind + Clone {
    /// The resource to migrate.
    fn spec(&self) -> Option<&StorageVersionMigrationSpec>;

    /// Conditions, and the revision up to which objects are migrated.
    fn status(&self) -> Option<&StorageVersionMigrationStatus>;

    /// The same, to change it.
    fn status_mut(&mut self) -> &mut Option<StorageVersionMigrationStatus>;
}

macro_rules! kind {
    ($kind:ident, $group:literal, $version:literal, $plural:literal, $scope:ty, [$($member:ident),+]) => {
        impl Resource for $kind {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = stringify!($kind);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = $scope;
        }

        impl Metadata for $kind {
            type Ty = ObjectMeta;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let members = 2 + [$(stringify!($member)),+].len();
                let mut object = serializer.serialize_struct(Self::KIND, members)?;
                object.serialize_field("apiVersion", Self::API_VERSION)?;
                object.serialize_field("kind", Self::KIND)?;
                $(object.serialize_field(stringify!($member), &self.$member)?;)+
                object.end()
            }
        }
    };
}

kind!(
    ClusterTrustBundle,
    "certificates.k8s.io",
    "v1",
    "clustertrustbundles",
    ClusterResourceScope,
    [metadata, spec]
);
kind!(
    DeviceTaintRule,
    "resource.k8s.io",
    "v1",
    "devicetaintrules",
    ClusterResourceScope,
    [metadata, spec, status]
);
kind!(
    PodGroup,
    "scheduling.k8s.io",
    "v1beta1",
    "podgroups",
    NamespaceResourceScope,
    [metadata, spec, status]
);
kind!(
    PodCertificateRequest,
    "certificates.k8s.io",
    "v1",
    "podcertificaterequests",
    NamespaceResourceScope,
    [metadata]
);
kind!(
    StorageVersionMigration,
    "storagemigration.k8s.io",
    "v1",
    "storageversionmigrations",
    ClusterResourceScope,
    [metadata, spec, status]
);

macro_rules! members {
    ($bundle:ty, $migration:ty) => {
        impl TrustBundle for $bundle {
            fn new(metadata: ObjectMeta, spec: ClusterTrustBundleSpec) -> Self {
                Self { metadata, spec }
            }

            fn spec(&self) -> &ClusterTrustBundleSpec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut ClusterTrustBundleSpec {
                &mut self.spec
            }
        }

        impl Migration for $migration {
            fn spec(&self) -> Option<&StorageVersionMigrationSpec> {
                self.spec.as_ref()
            }

            fn status(&self) -> Option<&StorageVersionMigrationStatus> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<StorageVersionMigrationStatus> {
                &mut self.status
            }
        }
    };
}

members!(ClusterTrustBundle, StorageVersionMigration);
members!(certificates::ClusterTrustBundle, storagemigration::StorageVersionMigration);

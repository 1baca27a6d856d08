//! Kinds of the group `storagemigration.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::table;
use crate::validate::groups::storage_migration;

pub(crate) static STORAGE_VERSION_MIGRATION: KindRules =
    KindRules { conversions: &[("storagemigration.k8s.io/v1", |_| {})], ..MIGRATION };

pub(crate) static STORAGE_VERSION_MIGRATION_V1: KindRules =
    KindRules { conversions: &[("storagemigration.k8s.io/v1beta1", |_| {})], ..MIGRATION };

/// The rules of both versions of StorageVersionMigrations, which have the same members.
const MIGRATION: KindRules = KindRules {
    content: |object, _, errors| storage_migration::content(object, errors),
    change: storage_migration::change,
    printer: table::cluster::STORAGE_VERSION_MIGRATION,
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA.checked(storage_migration::status)],
    ..KindRules::NONE
};

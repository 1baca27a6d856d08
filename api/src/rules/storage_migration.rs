//! Kinds of the group `storagemigration.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::storage_migration;

pub(crate) static STORAGE_VERSION_MIGRATION: KindRules = KindRules {
    content: |object, _, errors| storage_migration::content(object, errors),
    change: storage_migration::change,
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA.checked(storage_migration::status)],
    ..KindRules::NONE
};

//! Kinds of the group `storage.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::storage;
use crate::validate::warning;
use crate::version::Minor;
use crate::{check, defaults, table};

pub(crate) static CSI_DRIVER: KindRules = KindRules {
    defaults: defaults::storage::driver,
    content: |object, _, errors| storage::csi_driver(object, errors),
    change: storage::csi_driver_change,
    warnings: |object, old, warnings| warning::other::driver(&object["spec"], old, warnings),
    printer: table::storage::DRIVER,
    ..KindRules::NONE
};

pub(crate) static CSI_NODE: KindRules = KindRules {
    content: |object, _, errors| storage::csi_node(object, errors),
    change: storage::csi_node_change,
    printer: table::storage::CSI_NODE,
    ..KindRules::NONE
};

pub(crate) static CSI_STORAGE_CAPACITY: KindRules = KindRules {
    create: storage::capacity,
    change: storage::capacity_change,
    warnings: |object, _, warnings| warning::other::capacity(&object["nodeTopology"], warnings),
    ..KindRules::NONE
};

pub(crate) static STORAGE_CLASS: KindRules = KindRules {
    defaults: defaults::storage::class,
    create: storage::class,
    change: storage::class_change,
    warnings: |object, _, warnings| warning::other::class(object, warnings),
    printer: table::storage::STORAGE_CLASS,
    later_printer: Some((Minor::V37, table::storage::UNMARKED_STORAGE_CLASS)),
    is_default: Some((Minor::V37, table::storage::is_default_class)),
    ..KindRules::NONE
};

pub(crate) static VOLUME_ATTACHMENT: KindRules = KindRules {
    content: |object, _, errors| storage::attachment(object, errors),
    change: |new, old, errors| check::immutable(errors, "spec", new, old),
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA
        .checked(|new, _, errors| storage::attachment_status(new, errors))],
    printer: table::storage::ATTACHMENT,
    ..KindRules::NONE
};

pub(crate) static VOLUME_ATTRIBUTES_CLASS: KindRules = KindRules {
    content: |object, _, errors| storage::attributes_class(object, errors),
    change: storage::attributes_class_change,
    printer: table::storage::ATTRIBUTES_CLASS,
    ..KindRules::NONE
};

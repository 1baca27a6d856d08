//! Table columns of volumes, claims, storage classes and CSI objects.

use super::text::{UNSET, join_or, length, list, of, or};
use super::{AGE, NAME, Printer, age, flag, is_marked, marked, name, number, printer as row, text};
use crate::meta;
use jiff::Timestamp;
use serde_json::Value;

const ACCESS: super::Column = text("Access Modes", "Supported access modes.");
const CAPACITY: super::Column = text("Capacity", "Storage capacity.");
const CLASS: super::Column = text("StorageClass", "Storage class.");
const ATTRIBUTES: super::Column = text("VolumeAttributesClass", "Volume attributes class.");
const MODE: super::Column = text("VolumeMode", "File system or block device.").wide();

/// Abbreviated access modes such as `RWO,ROX`, in fixed order, without duplicates.
fn access_modes(modes: &Value) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| list(modes).iter().any(|m| m == mode);
    join_or(known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short), ",", "")
}

/// Storage class of a volume or claim: the deprecated annotation, else the field.
fn class_of(object: &Value) -> &str {
    let annotation = meta::annotation(object, "volume.beta.kubernetes.io/storage-class");
    annotation.unwrap_or_else(|| of(&object["spec"]["storageClassName"]))
}

fn phase(object: &Value) -> &str {
    if meta::is_being_deleted(object) { "Terminating" } else { of(&object["status"]["phase"]) }
}

pub(crate) const VOLUME: Printer = row(
    &[
        NAME,
        CAPACITY,
        ACCESS,
        text("Reclaim Policy", "Reclaim policy of the volume."),
        text("Status", "Current phase."),
        text("Claim", "Claim bound to the volume."),
        CLASS,
        ATTRIBUTES,
        text("Reason", "Reason of the current phase."),
        AGE,
        MODE,
    ],
    |volume, now| {
        let spec = &volume["spec"];
        let claim = match &spec["claimRef"] {
            Value::Null => String::new(),
            claim => format!("{}/{}", of(&claim["namespace"]), of(&claim["name"])),
        };
        vec![
            name(volume),
            or(&spec["capacity"]["storage"], "0").into(),
            access_modes(&spec["accessModes"]).into(),
            of(&spec["persistentVolumeReclaimPolicy"]).into(),
            phase(volume).into(),
            claim.into(),
            class_of(volume).into(),
            or(&spec["volumeAttributesClassName"], UNSET).into(),
            of(&volume["status"]["reason"]).into(),
            age(volume, now),
            or(&spec["volumeMode"], UNSET).into(),
        ]
    },
);

pub(crate) const CLAIM: Printer = row(
    &[
        NAME,
        text("Status", "Current phase."),
        text("Volume", "Volume bound to the claim."),
        CAPACITY,
        ACCESS,
        CLASS,
        ATTRIBUTES,
        AGE,
        MODE,
    ],
    |claim, now| {
        let (spec, status) = (&claim["spec"], &claim["status"]);
        let volume = of(&spec["volumeName"]);
        let (capacity, modes) = match volume {
            "" => ("", String::new()),
            _ => (or(&status["capacity"]["storage"], "0"), access_modes(&status["accessModes"])),
        };
        vec![
            name(claim),
            phase(claim).into(),
            volume.into(),
            capacity.into(),
            modes.into(),
            class_of(claim).into(),
            or(&spec["volumeAttributesClassName"], UNSET).into(),
            age(claim, now),
            or(&spec["volumeMode"], UNSET).into(),
        ]
    },
);

const IS_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

const OF_STORAGE_CLASS: &[super::Column] = &[
    NAME,
    text("Provisioner", "Provisioner of the volumes."),
    text("ReclaimPolicy", "Reclaim policy of the volumes."),
    text("VolumeBindingMode", "When volumes are provisioned and bound."),
    text("AllowVolumeExpansion", "Whether claims can be expanded."),
    AGE,
];

/// The columns before Kubernetes 1.37: each class with the annotation is marked.
pub(crate) const STORAGE_CLASS: Printer =
    row(OF_STORAGE_CLASS, |class, now| storage_class(marked(class, &IS_DEFAULT), class, now));

/// The columns since Kubernetes 1.37. A list marks the effective default ([`is_default_class`]); one class has no mark.
pub(crate) const UNMARKED_STORAGE_CLASS: Printer =
    row(OF_STORAGE_CLASS, |class, now| storage_class(name(class), class, now));

fn storage_class(name: Value, class: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name,
        of(&class["provisioner"]).into(),
        or(&class["reclaimPolicy"], "Delete").into(),
        or(&class["volumeBindingMode"], "Immediate").into(),
        (class["allowVolumeExpansion"] == true).into(),
        age(class, now),
    ]
}

/// Whether an annotation makes a StorageClass a default.
pub(crate) fn is_default_class(class: &Value) -> bool {
    is_marked(class, &IS_DEFAULT)
}

pub(crate) const DRIVER: Printer = row(
    &[
        NAME,
        flag("AttachRequired", "Whether volumes are attached before they are mounted."),
        flag("PodInfoOnMount", "Whether the driver needs pod information to mount."),
        flag("StorageCapacity", "Whether the scheduler considers storage capacity."),
        text("TokenRequests", "Audiences of the requested tokens."),
        flag("RequiresRepublish", "Whether volumes are published periodically."),
        text("Modes", "Lifecycles of volumes it supports."),
        AGE,
    ],
    |driver, now| {
        let spec = &driver["spec"];
        let audiences = list(&spec["tokenRequests"]).iter().map(|request| of(&request["audience"]));
        vec![
            name(driver),
            (spec["attachRequired"] != false).into(),
            (spec["podInfoOnMount"] == true).into(),
            (spec["storageCapacity"] == true).into(),
            join_or(audiences, ",", UNSET).into(),
            (spec["requiresRepublish"] == true).into(),
            join_or(list(&spec["volumeLifecycleModes"]).iter().map(of), ",", "<none>").into(),
            age(driver, now),
        ]
    },
);

pub(crate) const CSI_NODE: Printer =
    row(&[NAME, number("Drivers", "Drivers on the node."), AGE], |node, now| {
        vec![name(node), length(&node["spec"]["drivers"]), age(node, now)]
    });

pub(crate) const ATTACHMENT: Printer = row(
    &[
        NAME,
        text("Attacher", "Driver that attaches the volume.").name_format(),
        text("PV", "Name of the persistent volume."),
        text("Node", "Name of the node."),
        flag("Attached", "Whether the volume is attached."),
        AGE,
    ],
    |attachment, now| {
        let spec = &attachment["spec"];
        vec![
            name(attachment),
            of(&spec["attacher"]).into(),
            of(&spec["source"]["persistentVolumeName"]).into(),
            of(&spec["nodeName"]).into(),
            (attachment["status"]["attached"] == true).into(),
            age(attachment, now),
        ]
    },
);

pub(crate) const ATTRIBUTES_CLASS: Printer =
    row(&[NAME, text("DriverName", "Driver the attributes are for."), AGE], |class, now| {
        vec![name(class), of(&class["driverName"]).into(), age(class, now)]
    });

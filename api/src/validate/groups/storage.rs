//! Validation of storage classes, CSI drivers, CSI nodes, storage capacities, volume attachments and volume
//! attributes classes.
//!
//! Follows `ValidateStorageClass`, `ValidateCSIDriver` and `ValidateVolumeAttachment`.

use super::reference::{driver, label_key};
use crate::check::{
    IMMUTABLE, each, given_one_of, grammar, immutable, none_negative, quantity_not_negative, required,
};
use crate::distinct::{Distinct, meaning};
use crate::field::{ErrorList, Path};
use crate::limits::{
    CSI_NODE_ID_MAX, STORAGE_PARAMETERS_BYTES_MAX, STORAGE_PARAMETERS_MAX, VOLUME_ERROR_MAX,
    VOLUME_METADATA_MAX,
};
use crate::name;
use crate::object::{list, semantically_equal, text};
use crate::validate::selector::label_selector;
use crate::validate::{claim, pod};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn class(object: &Value, errors: &mut ErrorList) {
    provisioner(errors, &Path::new("provisioner"), text(&object["provisioner"]));
    parameters(errors, &object["parameters"]);
    let policy = text(&object["reclaimPolicy"]);
    if !["", "Delete", "Retain"].contains(&policy) {
        errors.not_supported(&Path::new("reclaimPolicy"), policy, &["Delete", "Retain"]);
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    given_one_of(errors, &Path::new("volumeBindingMode"), &object["volumeBindingMode"], &modes);
    topologies(errors, object);
}

fn provisioner(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    match own.to_lowercase() {
        own if own.is_empty() => errors.required(path, ""),
        own => grammar(errors, path, &own, name::qualified_name(&own)),
    }
}

fn parameters(errors: &mut ErrorList, parameters: &Value) {
    let path = Path::new("parameters");
    let entries = parameters.as_object();
    if entries.is_some_and(|entries| entries.len() > STORAGE_PARAMETERS_MAX) {
        return errors.too_long(&path, STORAGE_PARAMETERS_MAX);
    }
    let mut total = 0;
    for (key, value) in entries.into_iter().flatten() {
        if key.is_empty() {
            errors.invalid(&path, "", "field can not be empty.");
        }
        total += key.len() + text(value).len();
    }
    if total > STORAGE_PARAMETERS_BYTES_MAX {
        errors.too_long(&path, STORAGE_PARAMETERS_BYTES_MAX);
    }
}

fn topologies(errors: &mut ErrorList, object: &Value) {
    let mut terms = BTreeSet::new();
    each(&Path::ROOT, object, "allowedTopologies", |path, term| {
        let expressions = list(&term["matchLabelExpressions"]);
        let at = path.child("matchLabelExpressions");
        let mut keys = Distinct::default();
        for (i, expression) in expressions.iter().enumerate() {
            let path = at.index(i);
            if list(&expression["values"]).is_empty() {
                errors.required(&path.child("values"), "");
            }
            super::reference::unique_texts(errors, &path.child("values"), list(&expression["values"]));
            label_key(errors, &path.child("key"), &expression["key"]);
            if !keys.insert(&expression["key"]) {
                errors.duplicate(&path.child("key"), &expression["key"]);
            }
        }
        // Kubernetes compares a term without expressions also with the empty places of terms, and reports it for each.
        if !terms.insert(meaning(term, &[])) || expressions.is_empty() {
            errors.duplicate(&at, "");
        }
    });
}

pub(crate) fn class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    for member in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(errors, member, new, old);
    }
}

pub(crate) fn csi_driver(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let flags = [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ];
    for (_, printed) in flags.into_iter().filter(|(member, _)| spec[*member].is_null()) {
        errors.required(&SPEC.child(printed), "");
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    if let Some(policy) = spec["fsGroupPolicy"].as_str().filter(|policy| !policies.contains(policy)) {
        errors.not_supported(&SPEC.child("fsGroupPolicy"), policy, &policies);
    }
    token_requests(errors, spec);
    let modes = ["Persistent", "Ephemeral"];
    for mode in list(&spec["volumeLifecycleModes"]).iter().map(text).filter(|mode| !modes.contains(mode)) {
        errors.not_supported_as_listed(&SPEC.child("volumeLifecycleModes"), mode, &modes);
    }
    if spec["seLinuxMount"].is_null() {
        errors.required(&SPEC.child("seLinuxMount"), "");
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let detail = "must be greater than or equal to 10 seconds";
        errors.invalid(&SPEC.child("nodeAllocatableUpdatePeriodSeconds"), period, detail);
    }
    let in_secrets = &spec["serviceAccountTokenInSecrets"];
    if !in_secrets.is_null() && list(&spec["tokenRequests"]).is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&SPEC.child("serviceAccountTokenInSecrets"), in_secrets, detail);
    }
}

fn token_requests(errors: &mut ErrorList, spec: &Value) {
    let (requests, mut seen) = (list(&spec["tokenRequests"]), BTreeSet::new());
    for (i, request) in requests.iter().enumerate() {
        let path = SPEC.child("tokenRequests");
        let path = path.index(i);
        let audience = text(&request["audience"]);
        if !seen.insert(audience) {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        let (at, seconds) = (path.child("expirationSeconds"), &request["expirationSeconds"]);
        match seconds.as_i64() {
            Some(..600) => errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes"),
            Some(given) if given > 1 << 32 => {
                errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
            }
            _ => {}
        }
    }
}

pub(crate) fn csi_driver_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (required, stored) = (&new["spec"]["attachRequired"], &old["spec"]["attachRequired"]);
    if required != stored {
        errors.invalid(&SPEC.child("attachedRequired"), required, IMMUTABLE);
    }
    immutable(errors, "spec.volumeLifecycleModes", new, old);
}

pub(crate) fn csi_node(object: &Value, errors: &mut ErrorList) {
    let mut names = BTreeSet::new();
    each(&SPEC, &object["spec"], "drivers", |path, value| {
        driver(errors, &path.child("name"), &value["name"]);
        let (at, id) = (path.child("nodeID"), text(&value["nodeID"]));
        required(errors, &at, &value["nodeID"]);
        if id.len() > CSI_NODE_ID_MAX {
            errors.invalid(&at, id, format!("must be {CSI_NODE_ID_MAX} characters or less"));
        }
        none_negative(errors, &path.child("allocatable"), &value["allocatable"], &["count"]);
        if !names.insert(text(&value["name"]).to_owned()) {
            errors.duplicate(&path.child("name"), &value["name"]);
        }
        let (keys, mut seen) = (list(&value["topologyKeys"]), Distinct::default());
        for key in keys {
            if text(key).is_empty() {
                errors.required(path, "");
            }
            if !seen.insert(key) {
                errors.duplicate(path, key);
            }
            label_key(errors, path, key);
        }
    });
}

/// Checks that the drivers of a CSINode stay, except their allocatable counts.
pub(crate) fn csi_node_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(members) = driver.as_object_mut() {
            members.remove("allocatable");
        }
        driver
    };
    // Counts of stored drivers by name and contents. A new driver is reported once for each stored driver of
    // its name that differs.
    let mut stored: BTreeMap<&str, (usize, BTreeMap<String, usize>)> = BTreeMap::new();
    for driver in list(&old["spec"]["drivers"]) {
        let (count, meanings) = stored.entry(text(&driver["name"])).or_default();
        *count += 1;
        *meanings.entry(meaning(driver, &["allocatable"])).or_default() += 1;
    }
    for driver in list(&new["spec"]["drivers"]) {
        let Some((count, meanings)) = stored.get(text(&driver["name"])) else { continue };
        let same = meanings.get(&meaning(driver, &["allocatable"])).copied().unwrap_or_default();
        for _ in 0..count - same {
            if errors.is_full() {
                return;
            }
            errors.invalid(&SPEC.child("drivers"), &fixed(driver), IMMUTABLE);
        }
    }
}

pub(crate) fn capacity(object: &Value, errors: &mut ErrorList) {
    label_selector(errors, &Path::new("nodeTopology"), &object["nodeTopology"]);
    let class = text(&object["storageClassName"]);
    grammar(errors, &Path::new("storageClassName"), class, name::dns1123_subdomain(class));
    quantity_not_negative(errors, &Path::new("capacity"), &object["capacity"]);
}

pub(crate) fn capacity_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "nodeTopology", new, old);
    immutable(errors, "storageClassName", new, old);
}

pub(crate) fn attachment(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    driver(errors, &SPEC.child("attacher"), &spec["attacher"]);
    let (path, source) = (SPEC.child("source"), &spec["source"]);
    let volume = &source["persistentVolumeName"];
    let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source["inlineVolumeSpec"].is_null(), volume.is_null()) {
        (true, true) => errors.required(&path, one),
        (false, false) => errors.forbidden(&path, one),
        (true, false) if text(volume).is_empty() => {
            errors
                .required(&path.child("persistentVolumeName"), "must specify non empty persistentVolumeName");
        }
        (true, false) => {}
        (false, true) => inline_volume(errors, &path.child("inlineVolumeSpec"), &source["inlineVolumeSpec"]),
    }
    let node = text(&spec["nodeName"]);
    grammar(errors, &SPEC.child("nodeName"), node, name::dns1123_subdomain(node));
    attachment_status(object, errors);
    if let Some(volume) = volume.as_str() {
        grammar(errors, &path.child("persistentVolumeName"), volume, name::dns1123_subdomain(volume));
    }
}

/// Checks the specification of a volume inside an attachment: a CSI volume that nothing else binds or places.
fn inline_volume(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    const CONTEXT: &str = "in the context of inline volumes";
    let forbidden = format!("may not be specified {CONTEXT}");
    let is_set = |member: &str| match &spec[member] {
        Value::Null => false,
        Value::Object(members) => member != "capacity" || !members.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    for member in ["claimRef", "capacity"].into_iter().filter(|member| is_set(member)) {
        errors.forbidden(&path.child(member), forbidden.clone());
    }
    if spec["csi"].is_null() {
        errors.required(&path.child("csi"), format!("has to be specified {CONTEXT}"));
    }
    claim::access_modes(errors, path, spec, "");
    if !matches!(text(&spec["persistentVolumeReclaimPolicy"]), "" | "Retain") {
        let detail = format!("may only be Retain {CONTEXT}");
        errors.forbidden(&path.child("persistentVolumeReclaimPolicy"), detail);
    }
    for member in ["nodeAffinity", "storageClassName"].into_iter().filter(|member| is_set(member)) {
        errors.forbidden(&path.child(member), forbidden.clone());
    }
    pod::source::only_one(errors, path, spec, pod::source::OF_VOLUMES);
    if !matches!(text(&spec["volumeMode"]), "" | "Filesystem") {
        let detail = format!("may not specify volumeMode other than Filesystem {CONTEXT}");
        errors.forbidden(&path.child("volumeMode"), detail);
    }
}

pub(crate) fn attachment_status(object: &Value, errors: &mut ErrorList) {
    let (path, status) = (Path::new("status"), &object["status"]);
    let metadata = status["attachmentMetadata"].as_object().into_iter().flatten();
    let size: usize = metadata.map(|(key, value)| key.len() + text(value).len()).sum();
    if size > VOLUME_METADATA_MAX {
        errors.too_long(&path.child("attachmentMetadata"), VOLUME_METADATA_MAX);
    }
    for member in ["attachError", "detachError"] {
        let path = path.child(member);
        if text(&status[member]["message"]).len() > VOLUME_ERROR_MAX {
            errors.too_long(&path.child("message"), VOLUME_METADATA_MAX);
        }
        let code = &status[member]["errorCode"];
        if code.as_i64().is_some_and(|code| code < 0) {
            errors.invalid(&path.child("errorCode"), code, name::in_range(0, i64::from(i32::MAX)));
        }
    }
}

pub(crate) fn attributes_class(object: &Value, errors: &mut ErrorList) {
    provisioner(errors, &Path::new("driverName"), text(&object["driverName"]));
    parameters(errors, &object["parameters"]);
    if object["parameters"].as_object().is_none_or(serde_json::Map::is_empty) {
        errors.required(&Path::new("parameters"), "must contain at least one key/value pair");
    }
}

pub(crate) fn attributes_class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    for member in ["driverName", "parameters"] {
        if !semantically_equal(&new[member], &old[member]) {
            errors.forbidden(&Path::new(member), format!("updates to {member} are forbidden."));
        }
    }
}

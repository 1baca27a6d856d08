//! What must hold of storage classes.

use serde_json::Value;

use super::check::{immutable, one_of, required};
use crate::field::{ErrorList, Path};
use crate::object::semantically_equal;

pub(super) fn class(object: &Value, errors: &mut ErrorList) {
    required(errors, &Path::new("provisioner"), &object["provisioner"]);
    one_of(errors, &Path::new("reclaimPolicy"), &object["reclaimPolicy"], &["Delete", "Retain"]);
    let modes = ["Immediate", "WaitForFirstConsumer"];
    one_of(errors, &Path::new("volumeBindingMode"), &object["volumeBindingMode"], &modes);
}

pub(super) fn class_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    for member in ["parameters", "provisioner", "reclaimPolicy"] {
        if !semantically_equal(&new[member], &old[member]) {
            errors.forbidden(&Path::new(member), format!("updates to {member} are forbidden."));
        }
    }
    immutable(errors, "volumeBindingMode", new, old);
}

//! Validation of IPAddress and ServiceCIDR objects.
//!
//! Follows `ValidateIPAddress` and `ValidateServiceCIDR`.

use super::address::canonical_block;
use super::reference::segment;
use crate::check::{IMMUTABLE, grammar, immutable};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use serde_json::Value;

pub(crate) fn ip_address(object: &Value, errors: &mut ErrorList) {
    let (path, parent) = (Path::new("spec.parentRef"), &object["spec"]["parentRef"]);
    if parent.is_null() {
        errors.required(&path, "");
        return;
    }
    let (group, namespace) = (text(&parent["group"]), text(&parent["namespace"]));
    if !group.is_empty() {
        grammar(errors, &path.child("group"), group, name::dns1123_subdomain(group));
    }
    segment(errors, &path.child("resource"), &parent["resource"]);
    segment(errors, &path.child("name"), &parent["name"]);
    grammar(errors, &path.child("namespace"), namespace, name::path_segment(namespace));
}

pub(crate) fn ip_address_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    immutable(errors, "spec.parentRef", new, old);
}

const CIDRS: Path<'static> = Path::new("spec.cidrs");

pub(crate) fn service_cidr(object: &Value, errors: &mut ErrorList) {
    let blocks = list(&object["spec"]["cidrs"]);
    match blocks.len() {
        0 => return errors.required(&CIDRS, "at least one CIDR required"),
        1 | 2 => {}
        _ => return errors.invalid(&CIDRS, &object["spec"], "may only hold up to 2 values"),
    }
    let mut families = Vec::new();
    for (i, value) in blocks.iter().enumerate() {
        families.extend(canonical_block(errors, &CIDRS.index(i), value).map(|block| block.is_ipv4()));
    }
    if let [first, second] = families[..]
        && first == second
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&CIDRS, blocks, detail);
    }
}

/// Checks that blocks stay, except that a single-family ServiceCIDR may get a block of the other family.
pub(crate) fn service_cidr_change(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (blocks, stored) = (list(&new["spec"]["cidrs"]), list(&old["spec"]["cidrs"]));
    let grows = stored.len() == 1 && blocks.len() == 2;
    if blocks.len() != stored.len() && !grows {
        return errors.invalid(&CIDRS, blocks, IMMUTABLE);
    }
    for (i, block) in blocks.iter().enumerate().take(stored.len()).filter(|(i, block)| **block != stored[*i])
    {
        errors.invalid(&CIDRS.index(i), block, IMMUTABLE);
    }
    if grows {
        service_cidr(new, errors);
    }
}

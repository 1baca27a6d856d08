//! Validation of network policies.
//!
//! Follows `ValidateNetworkPolicy`.

use super::address::{self, parse_block};
use crate::check::{each, given_one_of, grammar};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{int, list, text};
use crate::validate::selector::label_selector;
use serde_json::Value;
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn content(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = &object["spec"];
    label_selector(errors, &SPEC.child("podSelector"), &spec["podSelector"]);
    let known = old.map(blocks).unwrap_or_default();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        each(&SPEC, spec, rules, |path, rule| {
            each(path, rule, "ports", |path, value| port(errors, path, value));
            each(path, rule, peers, |path, value| peer(errors, path, value, &known));
        });
    }
    types(errors, &SPEC.child("policyTypes"), list(&spec["policyTypes"]));
}

fn types(errors: &mut ErrorList, path: &Path<'_>, types: &[Value]) {
    let known = ["Ingress", "Egress"];
    if types.len() > known.len() {
        errors.invalid(path, types, "may not specify more than two policyTypes");
        return;
    }
    for (i, kind) in types.iter().map(text).enumerate().filter(|(_, kind)| !known.contains(kind)) {
        errors.not_supported_as_listed(&path.index(i), kind, &known);
    }
}

fn port(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    given_one_of(errors, &path.child("protocol"), &value["protocol"], &["SCTP", "TCP", "UDP"]);
    let (at, end_at, end) = (path.child("port"), path.child("endPort"), &value["endPort"]);
    match &value["port"] {
        Value::Number(_) => {
            let first = int(&value["port"]);
            for fault in name::port_number(first) {
                errors.invalid(&at, &first, fault);
            }
            if end.is_null() {
                return;
            }
            if int(end) < first {
                errors.invalid(&end_at, &first, "must be greater than or equal to `port`");
            }
            for fault in name::port_number(int(end)) {
                errors.invalid(&end_at, end, fault);
            }
        }
        Value::String(own) => {
            if !end.is_null() {
                errors.invalid(&end_at, end, "may not be specified when `port` is non-numeric");
            }
            grammar(errors, &at, own, name::port_name(own));
        }
        _ if !end.is_null() => {
            errors.invalid(&end_at, end, "may not be specified when `port` is not specified");
        }
        _ => {}
    }
}

fn peer(errors: &mut ErrorList, path: &Path<'_>, peer: &Value, known: &BTreeSet<&str>) {
    let selectors = ["podSelector", "namespaceSelector"];
    let chosen = selectors.iter().any(|member| !peer[*member].is_null());
    for member in selectors {
        label_selector(errors, &path.child(member), &peer[member]);
    }
    let block = &peer["ipBlock"];
    if !block.is_null() {
        ip_block(errors, &path.child("ipBlock"), block, known);
    }
    match (chosen, block.is_null()) {
        (false, true) => errors.required(path, "must specify a peer"),
        (true, false) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
        (false, false) | (true, true) => {}
    }
}

/// Checks an IP block and its exceptions. Blocks that the stored policy contains anywhere stay acceptable.
fn ip_block(errors: &mut ErrorList, path: &Path<'_>, block: &Value, known: &BTreeSet<&str>) {
    let own = text(&block["cidr"]);
    if own.is_empty() {
        errors.required(&path.child("cidr"), "");
        return;
    }
    let parse = |errors: &mut ErrorList, path: &Path<'_>, value: &Value| match known.contains(&text(value)) {
        true => parse_block(text(value)).ok(),
        false => address::block(errors, path, value),
    };
    let Some(whole) = parse(errors, &path.child("cidr"), &block["cidr"]) else { return };
    each(path, block, "except", |path, value| {
        if let Some(part) = parse(errors, path, value)
            && !whole.strictly_contains(part)
        {
            errors.invalid(path, text(value), "must be a strict subset of `cidr`");
        }
    });
}

/// All CIDR texts of a policy.
fn blocks(policy: &Value) -> BTreeSet<&str> {
    let mut all = BTreeSet::new();
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in list(&policy["spec"][rules]) {
            for block in list(&rule[peers]).iter().map(|peer| &peer["ipBlock"]) {
                all.insert(text(&block["cidr"]));
                all.extend(list(&block["except"]).iter().map(text));
            }
        }
    }
    all
}

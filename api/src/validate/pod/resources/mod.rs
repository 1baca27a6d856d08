//! Validation of requests, limits and claims of containers, of pod-level resources, and of pod overhead.
//!
//! Follows `ValidateContainerResourceRequirements`.

mod whole;

use crate::check::{grammar, quantity};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use crate::quantity::Quantity;
use crate::validate::resource;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
pub(super) use whole::of_pod;

/// Check of a resource name.
type NameRule = fn(&mut ErrorList, &Path<'_>, &str);

/// Checks the resources of a container.
pub(super) fn of_container(
    errors: &mut ErrorList,
    path: &Path<'_>,
    resources: &Value,
    pod_claims: &BTreeSet<&str>,
) {
    requirements(errors, path, resources, container_name);
    claims(errors, &path.child("claims"), list(&resources["claims"]), pod_claims);
}

/// Checks pod overhead. It is validated like limits, so messages say `limits`.
pub(super) fn overhead(errors: &mut ErrorList, path: &Path<'_>, overhead: &Value) {
    if let Some(amounts) = overhead.as_object() {
        amounts_of(errors, &path.child("limits"), amounts, container_name);
        huge_pages_alone(errors, path, [Some(amounts), None]);
    }
}

fn requirements(errors: &mut ErrorList, path: &Path<'_>, resources: &Value, name_rule: NameRule) {
    let (limits, requests) = (resources["limits"].as_object(), resources["requests"].as_object());
    let (limit_path, request_path) = (path.child("limits"), path.child("requests"));
    if let Some(limits) = limits {
        amounts_of(errors, &limit_path, limits, name_rule);
    }
    for (own, amount) in requests.into_iter().flatten() {
        let path = request_path.key(own);
        name_rule(errors, &path, own);
        resource::amount(errors, &path, own, amount);
        request(errors, (&limit_path, &request_path), own, (quantity(amount), &resources["limits"][own]));
        divisible(errors, &path, own, amount);
    }
    huge_pages_alone(errors, path, [limits, requests]);
}

fn amounts_of(errors: &mut ErrorList, path: &Path<'_>, amounts: &Map<String, Value>, name_rule: NameRule) {
    for (own, amount) in amounts {
        let path = path.key(own);
        name_rule(errors, &path, own);
        resource::amount(errors, &path, own, amount);
        divisible(errors, &path, own, amount);
    }
}

/// Checks a request against its limit; messages have the path of all requests.
fn request(
    errors: &mut ErrorList,
    (limit_path, request_path): (&Path<'_>, &Path<'_>),
    own: &str,
    (requested, limit): (Option<Quantity>, &Value),
) {
    let strict = !resource::may_overcommit(own);
    let (Some(requested), Some(limit)) = (requested, quantity(limit)) else {
        if strict {
            errors.required(limit_path, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    if requested != limit && strict {
        let detail = format!("must be equal to {own} limit of {limit}");
        errors.invalid(request_path, &requested.to_string(), detail);
    } else if requested > limit {
        let detail = format!("must be less than or equal to {own} limit of {limit}");
        errors.invalid(request_path, &requested.to_string(), detail);
    }
}

/// Checks that an amount of huge pages is a multiple of the page size.
fn divisible(errors: &mut ErrorList, path: &Path<'_>, own: &str, amount: &Value) {
    let Some(size) = own.strip_prefix(resource::HUGE_PAGES) else { return };
    let Some(amount) = quantity(amount) else { return };
    let size = Quantity::parse(size).map_or(0, Quantity::units);
    if size <= 0 || amount.units() % size != 0 {
        let detail = format!("{amount} is not positive integer multiple of {own}");
        errors.invalid(path, &amount.to_string(), detail);
    }
}

fn huge_pages_alone(errors: &mut ErrorList, path: &Path<'_>, sides: [Option<&Map<String, Value>>; 2]) {
    let has =
        |test: fn(&str) -> bool| sides.iter().flatten().any(|amounts| amounts.keys().any(|own| test(own)));
    if has(|own| own.starts_with(resource::HUGE_PAGES)) && !has(|own| matches!(own, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// Checks the name of a resource that containers can request.
pub(in crate::validate) fn container_name(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    resource::name(errors, path, own);
    if !own.contains('/') {
        if !resource::is_of_containers(own) {
            errors.invalid(path, own, "must be a standard resource for containers");
        }
    } else if !resource::is_native(own) && !resource::is_extended(own) {
        errors.invalid(path, own, "doesn't follow extended resource name standard");
    }
}

/// Checks the claims that a container uses: each once, either whole or by request.
fn claims(errors: &mut ErrorList, path: &Path<'_>, claims: &[Value], pod_claims: &BTreeSet<&str>) {
    // Claims used whole, requests of claims, and the claims of those requests.
    let (mut used, mut in_part) = (BTreeSet::new(), BTreeSet::new());
    for (i, claim) in claims.iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let (path, own, request) = (path.index(i), text(&claim["name"]), text(&claim["request"]));
        if own.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if !request.is_empty() && !used.contains(own) {
            grammar(errors, &path.child("request"), request, name::dns1123_label(request));
        }
        let key = if request.is_empty() { own.to_owned() } else { format!("{own}/{request}") };
        if used.contains(own) || (request.is_empty() && in_part.contains(own)) {
            errors.duplicate(&path, own);
        } else if !used.insert(key.clone()) {
            errors.duplicate(&path, &key);
        }
        in_part.extend(key.split('/').next().map(str::to_owned));
        if !pod_claims.contains(own) {
            let mut detail = "must be one of the names in pod.spec.resourceClaims".to_owned();
            if pod_claims.is_empty() {
                detail.push_str(" which is empty");
            } else {
                let names: Vec<&str> = pod_claims.iter().copied().collect();
                detail.push_str(&format!(": {}", names.join(", ")));
            }
            errors.not_found_in(&path, own, detail);
        }
    }
}

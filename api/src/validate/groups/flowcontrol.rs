//! Validation of flow schemas and priority levels. The mandatory objects have fixed contents ([`mandatory`]).
//!
//! Follows `ValidateFlowSchema` and `ValidatePriorityLevelConfiguration`.

use crate::check::{each, grammar, required, required_grammar};
use crate::field::{ErrorList, Path};
use crate::flowcontrol::mandatory;
use crate::limits::{FLOW_PRECEDENCE_MAX, LEVEL_HASH_BITS_MAX, LEVEL_QUEUES_MAX};
use crate::object::{int, list, semantically_equal, text};
use crate::{meta, name};
use serde_json::Value;
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");

pub(crate) fn schema(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    precedence(errors, int(&spec["matchingPrecedence"]), meta::name(object));
    let (method, methods) = (&spec["distinguisherMethod"], ["ByNamespace", "ByUser"]);
    if !method.is_null() && !methods.contains(&text(&method["type"])) {
        errors.not_supported(&SPEC.child("distinguisherMethod.type"), text(&method["type"]), &methods);
    }
    let (path, level) =
        (SPEC.child("priorityLevelConfiguration.name"), &spec["priorityLevelConfiguration"]["name"]);
    match text(level) {
        "" => errors.required(&path, "must reference a priority level"),
        own => grammar(errors, &path, own, name::dns1123_subdomain(own)),
    }
    each(&SPEC, spec, "rules", |path, value| rule(errors, path, value));
    if let Some(fixed) = mandatory(meta::name(object), "FlowSchema")
        && !semantically_equal(spec, &fixed["spec"])
    {
        errors.invalid(&SPEC, spec, format!("spec of '{}' must equal the fixed value", meta::name(object)));
    }
    status(object, errors);
}

fn precedence(errors: &mut ErrorList, precedence: i64, own: &str) {
    let path = SPEC.child("matchingPrecedence");
    if precedence <= 0 {
        errors.invalid(&path, &precedence, "must be a positive value");
    }
    if precedence > FLOW_PRECEDENCE_MAX {
        errors.invalid(&path, &precedence, format!("must not be greater than {FLOW_PRECEDENCE_MAX}"));
    }
    if precedence == 1 && own != "exempt" {
        errors.invalid(&path, &1, "only the schema named 'exempt' may have matchingPrecedence 1");
    }
}

fn rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    if list(&rule["subjects"]).is_empty() {
        errors.required(&path.child("subjects"), "subjects must contain at least one value");
    }
    each(path, rule, "subjects", |path, value| subject(errors, path, value));
    if list(&rule["resourceRules"]).is_empty() && list(&rule["nonResourceRules"]).is_empty() {
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    each(path, rule, "resourceRules", |path, value| resource_rule(errors, path, value));
    each(path, rule, "nonResourceRules", |path, value| path_rule(errors, path, value));
}

/// Kinds of subjects, and the member with the details of each.
const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

fn subject(errors: &mut ErrorList, path: &Path<'_>, subject: &Value) {
    let kind = text(&subject["kind"]);
    let Some((_, member)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        errors.not_supported(&path.child("kind"), kind, &SUBJECTS.map(|(kind, _)| kind));
        return;
    };
    let (at, who) = (path.child(member), &subject[*member]);
    if who.is_null() {
        errors.required(&at, format!("{member} is required when subject kind is '{kind}'"));
    } else if kind == "ServiceAccount" {
        account(errors, &at, who);
    } else {
        required(errors, &at.child("name"), &who["name"]);
    }
    for (other, member) in
        SUBJECTS.iter().filter(|(other, member)| *other != kind && !subject[*member].is_null())
    {
        let detail = format!("{member} is forbidden when subject kind is not '{other}'");
        errors.forbidden(&path.child(member), detail);
    }
}

fn account(errors: &mut ErrorList, path: &Path<'_>, who: &Value) {
    if who["name"] != "*" {
        required_grammar(errors, &path.child("name"), &who["name"], name::dns1123_subdomain);
    }
    let at = path.child("namespace");
    match text(&who["namespace"]) {
        "" => errors.required(&at, "must specify namespace for service account"),
        own => grammar(errors, &at, own, name::dns1123_label(own)),
    }
}

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

/// Whether a list contains `*`, which then must be its only item.
fn wildcard(errors: &mut ErrorList, path: &Path<'_>, items: &[Value], what: &str) -> bool {
    let all = items.iter().any(|item| item == "*");
    if all && items.len() > 1 {
        errors.invalid(path, items, format!("if '*' is present, must not specify other {what}"));
    }
    all
}

fn verbs(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let (path, verbs) = (path.child("verbs"), list(&rule["verbs"]));
    if verbs.is_empty() {
        errors.required(&path, "verbs must contain at least one value");
    } else if !wildcard(errors, &path, verbs, "verbs")
        && !verbs.iter().all(|verb| VERBS.contains(&text(verb)))
    {
        errors.not_supported(&path, &verbs.iter().map(text).collect::<Vec<_>>().join(","), &VERBS);
    }
}

fn resource_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    verbs(errors, path, rule);
    for (member, one, many) in
        [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        let (path, items) = (path.child(member), list(&rule[member]));
        if items.is_empty() {
            errors.required(&path, format!("resource rules must supply at least one {one}"));
        }
        wildcard(errors, &path, items, many);
    }
    let (path, namespaces) = (path.child("namespaces"), list(&rule["namespaces"]));
    if namespaces.is_empty() && rule["clusterScope"] != true {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(&path, detail);
    } else if !wildcard(errors, &path, namespaces, "namespaces") {
        for (i, own) in namespaces.iter().map(text).enumerate() {
            for fault in name::dns1123_label(own) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {fault}");
                errors.invalid(&path.index(i), own, detail);
            }
        }
    }
}

fn path_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    verbs(errors, path, rule);
    let (path, urls) = (path.child("nonResourceURLs"), list(&rule["nonResourceURLs"]));
    if urls.is_empty() {
        errors.required(&path, "nonResourceURLs must contain at least one value");
    } else if !wildcard(errors, &path, urls, "non-resource URLs") {
        for (i, url) in urls.iter().map(text).enumerate() {
            if let Some(fault) = bad_url(url) {
                errors.invalid(&path.index(i), url, fault);
            }
        }
    }
}

fn bad_url(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

pub(crate) fn level(object: &Value, errors: &mut ErrorList) {
    let (spec, own) = (&object["spec"], meta::name(object));
    let kind = text(&spec["type"]);
    let (exempt, limited) = (&spec["exempt"], &spec["limited"]);
    if (own == "exempt") != (kind == "Exempt") {
        errors.invalid(&SPEC.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    match kind {
        "Exempt" => {
            if !limited.is_null() {
                errors.forbidden(&SPEC.child("limited"), "must be nil if the type is not Limited");
            }
            shares(errors, &SPEC.child("exempt"), exempt);
            percent(errors, &SPEC.child("exempt"), exempt);
        }
        "Limited" => {
            if !exempt.is_null() {
                errors.forbidden(&SPEC.child("exempt"), "must be nil if the type is Limited");
            }
            match limited.is_null() {
                true => errors.required(&SPEC.child("limited"), "must not be empty when type is Limited"),
                false => limits(errors, &SPEC.child("limited"), limited),
            }
        }
        other => errors.not_supported(&SPEC.child("type"), other, &["Exempt", "Limited"]),
    }
    fixed_level(object, errors);
    status(object, errors);
}

/// Checks that mandatory levels have their fixed spec, except the borrowing fields of the exempt level.
fn fixed_level(object: &Value, errors: &mut ErrorList) {
    let (spec, own) = (&object["spec"], meta::name(object));
    let Some(mut fixed) = mandatory(own, "PriorityLevelConfiguration") else { return };
    let mut detail = format!("spec of '{own}' must equal the fixed value");
    if own == "exempt" {
        fixed["spec"]["exempt"] = spec["exempt"].clone();
        detail = format!("spec of '{own}' except the 'spec.exempt' field must equal the fixed value");
    }
    if !semantically_equal(spec, &fixed["spec"]) {
        errors.invalid(&SPEC, spec, detail);
    }
}

fn shares(errors: &mut ErrorList, path: &Path<'_>, side: &Value) {
    if int(&side["nominalConcurrencyShares"]) < 0 {
        let path = path.child("nominalConcurrencyShares");
        errors.invalid(&path, &side["nominalConcurrencyShares"], "must be a non-negative integer");
    }
}

fn percent(errors: &mut ErrorList, path: &Path<'_>, side: &Value) {
    if !(0..=100).contains(&int(&side["lendablePercent"])) {
        errors.invalid(&path.child("lendablePercent"), &side["lendablePercent"], name::in_range(0, 100));
    }
}

fn limits(errors: &mut ErrorList, path: &Path<'_>, limited: &Value) {
    shares(errors, path, limited);
    let response = &limited["limitResponse"];
    let (at, queuing) = (path.child("limitResponse"), &response["queuing"]);
    match (text(&response["type"]), queuing.is_null()) {
        ("Reject", false) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.forbidden(&at.child("queuing"), detail);
        }
        ("Queue", true) => {
            errors
                .required(&at.child("queuing"), "must not be empty if limited.limitResponse.type is Limited");
        }
        ("Queue", false) => queues(errors, &at.child("queuing"), queuing),
        ("Reject", true) => {}
        (other, _) => errors.not_supported(&at.child("type"), other, &["Queue", "Reject"]),
    }
    percent(errors, path, limited);
    let borrowing = &limited["borrowingLimitPercent"];
    if int(borrowing) < 0 {
        let detail = "if specified, must be a non-negative integer";
        errors.invalid(&path.child("borrowingLimitPercent"), borrowing, detail);
    }
}

fn queues(errors: &mut ErrorList, path: &Path<'_>, queuing: &Value) {
    let [length, queues, hand] =
        ["queueLengthLimit", "queues", "handSize"].map(|member| int(&queuing[member]));
    for (member, value) in [("queueLengthLimit", length), ("queues", queues), ("handSize", hand)] {
        if value <= 0 {
            errors.invalid(&path.child(member), &value, "must be positive");
        }
    }
    if queues > LEVEL_QUEUES_MAX {
        errors.invalid(
            &path.child("queues"),
            &queues,
            format!("must not be greater than {LEVEL_QUEUES_MAX}"),
        );
    }
    let bits = hash_bits(queues, hand);
    if hand > 0 && hand > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errors.invalid(&path.child("handSize"), &hand, detail);
    } else if hand > 0 && bits > f64::from(LEVEL_HASH_BITS_MAX) {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {LEVEL_HASH_BITS_MAX}"
        );
        errors.invalid(&path.child("handSize"), &hand, detail);
    }
}

/// Hash bits needed to deal a hand of queues, for shuffle sharding.
fn hash_bits(queues: i64, hand: i64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "both are small numbers, and only the bits above 60 matter"
    )]
    let (queues, hand) = (queues as f64, hand as f64);
    (queues.log2() * hand).ceil()
}

/// Checks that conditions have distinct types.
pub(crate) fn status(object: &Value, errors: &mut ErrorList) {
    let (path, conditions) = (Path::new("status.conditions"), list(&object["status"]["conditions"]));
    let mut seen = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let (at, kind) = (path.index(i), text(&condition["type"]));
        if !seen.insert(kind) {
            errors.duplicate(&at.child("type"), kind);
        }
        required(errors, &at.child("type"), &condition["type"]);
    }
}

//! Validation of certificate signing requests: the request, and which endpoint may write which part of the
//! status. The apiserver checks the contents of PEM blocks and the signature, since this crate has no
//! cryptography.
//!
//! Follows `ValidateCertificateSigningRequestCreate` and `ValidateCertificateSigningRequestStatusUpdate`.

pub(in crate::validate) mod pem;
pub(crate) mod pod_certificate;

use crate::distinct::Distinct;
use crate::field::{ErrorList, Path};
use crate::limits::{CERTIFICATE_SECONDS_MIN, LABEL_MAX, SUBDOMAIN_MAX};
use crate::name;
use crate::object::{list, semantically_equal, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::BTreeSet;

const SPEC: Path<'static> = Path::new("spec");
const CONDITIONS: Path<'static> = Path::new("status.conditions");

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(crate) fn content(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let spec = &object["spec"];
    if !is_request(&spec["request"]) {
        errors.invalid(
            &SPEC.child("request"),
            &spec["request"],
            "PEM block type must be CERTIFICATE REQUEST",
        );
    }
    usages(errors, list(&spec["usages"]), old);
    signer(errors, &SPEC.child("signerName"), text(&spec["signerName"]));
    let seconds = &spec["expirationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds < CERTIFICATE_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&SPEC.child("expirationSeconds"), seconds, detail);
    }
    conditions(errors, object, old);
    certificate(errors, object, old);
}

fn decoded(value: &Value) -> String {
    let bytes = STANDARD.decode(text(value)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the first PEM block is a certificate request.
fn is_request(value: &Value) -> bool {
    pem::blocks(&decoded(value)).next().is_some_and(|block| block.label == "CERTIFICATE REQUEST")
}

fn usages(errors: &mut ErrorList, usages: &[Value], old: Option<&Value>) {
    let path = SPEC.child("usages");
    if usages.is_empty() {
        errors.required(&path, "");
    }
    let stored = old.map_or(&[][..], |old| list(&old["spec"]["usages"]));
    let unknown = |usage: &&Value| !USAGES.contains(&text(usage));
    let (repeats, knows) = (repeats(stored), !stored.iter().any(|usage| unknown(&usage)));
    let mut seen = Distinct::default();
    for (i, usage) in usages.iter().enumerate() {
        // Stored requests with unknown or duplicate usages stay acceptable.
        if unknown(&usage) && knows {
            errors.not_supported(&path.index(i), text(usage), &USAGES);
        }
        if !seen.insert(usage) && !repeats {
            errors.duplicate(&path.index(i), usage);
        }
    }
}

fn repeats(items: &[Value]) -> bool {
    let mut seen = Distinct::default();
    items.iter().any(|item| !seen.insert(item))
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const SIGNER_TEXT: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";

fn signer(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own == LEGACY_SIGNER {
        return errors.invalid(path, own, "the legacy signerName is not allowed via this API version");
    }
    signer_name(errors, path, own);
}

/// Checks the name of a signer: a domain and a path.
pub(crate) fn signer_name(errors: &mut ErrorList, path: &Path<'_>, own: &str) {
    if own.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, rest)) = own.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        return errors.invalid(path, own, SIGNER_TEXT);
    };
    if domain.len() > SUBDOMAIN_MAX {
        errors.too_long(path, SUBDOMAIN_MAX);
    }
    labels(errors, path, domain, name::dns1123_label);
    if !domain.contains('.') {
        errors.invalid(path, domain, "should be a domain with at least two segments separated by dots");
    }
    labels(errors, path, rest, name::dns1123_subdomain);
    // The longest service account: namespace, dot and name.
    let longest = LABEL_MAX + 1 + SUBDOMAIN_MAX;
    if rest.len() > longest {
        errors.too_long(path, longest);
    }
}

/// Reports the first dot-separated part that breaks the grammar.
fn labels(errors: &mut ErrorList, path: &Path<'_>, value: &str, grammar: fn(&str) -> name::Faults) {
    let first = value.split('.').map(|label| (label, grammar(label))).find(|(_, faults)| !faults.is_empty());
    for (label, fault) in
        first.iter().flat_map(|(label, faults)| faults.iter().map(move |fault| (label, fault)))
    {
        errors.invalid(path, value, format!("validating label {label:?}: {fault}"));
    }
}

const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

fn of_type<'o>(object: &'o Value, kind: &str) -> Vec<&'o Value> {
    list(&object["status"]["conditions"]).iter().filter(|condition| condition["type"] == kind).collect()
}

fn conditions(errors: &mut ErrorList, object: &Value, old: Option<&Value>) {
    let conditions = list(&object["status"]["conditions"]);
    let both = |object: &Value| DECISIONS.iter().all(|kind| !of_type(object, kind).is_empty());
    let tolerated = old.is_some_and(both);
    let mut seen = Distinct::default();
    // Decisions among the conditions checked so far; at most two exist.
    let mut decided: BTreeSet<&str> = BTreeSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let (path, kind) = (CONDITIONS.index(i), text(&condition["type"]));
        if kind.is_empty() {
            errors.required(&path.child("type"), "");
        }
        let statuses: &[&str] = if FINAL.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        match text(&condition["status"]) {
            "" => errors.required(&path.child("status"), ""),
            status if !statuses.contains(&status) => {
                errors.not_supported(&path.child("status"), status, statuses);
            }
            _ => {}
        }
        let is_decision = DECISIONS.contains(&kind);
        if !tolerated && is_decision && decided.iter().any(|earlier| *earlier != kind) {
            errors.invalid(&CONDITIONS, kind, "Approved and Denied conditions are mutually exclusive");
        }
        if is_decision {
            decided.insert(kind);
        }
        if !seen.insert(&condition["type"]) {
            errors.duplicate(&path.child("type"), kind);
        }
    }
}

fn certificate(errors: &mut ErrorList, object: &Value, old: Option<&Value>) {
    let certificate = &object["status"]["certificate"];
    let kept = old.is_some_and(|old| old["status"]["certificate"] == *certificate);
    if text(certificate).is_empty() || kept {
        return;
    }
    if let Some(fault) = fault_of_chain(&decoded(certificate)) {
        errors.invalid(&Path::new("status.certificate"), "<certificate data>", fault);
    }
}

/// Fault of an issued chain: it must be PEM blocks of certificates without headers, and nothing else.
fn fault_of_chain(chain: &str) -> Option<String> {
    let mut count = 0;
    for block in pem::blocks(chain) {
        if block.label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        count += 1;
    }
    (count == 0).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

/// Checks a status change: `/approval` writes decisions, `/status` writes certificates, and both are final.
pub(crate) fn change(subresource: &str, new: &Value, old: &Value, errors: &mut ErrorList) {
    for kind in FINAL {
        if of_type(new, kind).len() < of_type(old, kind).len() {
            errors.forbidden(&CONDITIONS, format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    for kind in DECISIONS.into_iter().filter(|_| subresource != "approval") {
        let (conditions, stored) = (of_type(new, kind), of_type(old, kind));
        if conditions.len() > stored.len() {
            errors.forbidden(&CONDITIONS, format!("updates may not add a condition of type {kind:?}"));
        } else if conditions.len() == stored.len()
            && conditions.iter().zip(&stored).any(|(new, old)| !semantically_equal(new, old))
        {
            errors.forbidden(&CONDITIONS, format!("updates may not modify a condition of type {kind:?}"));
        }
    }
    let (certificate, stored) = (text(&new["status"]["certificate"]), text(&old["status"]["certificate"]));
    let path = Path::new("status.certificate");
    if certificate != stored && subresource != "status" {
        errors.forbidden(&path, "updates may not set certificate content");
    } else if certificate != stored && !stored.is_empty() {
        errors.forbidden(&path, "updates may not modify existing certificate content");
    }
}

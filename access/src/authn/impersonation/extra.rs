//! What constrained impersonation accepts as extra fields. Pure.

use kstore_api::name::dns1123_subdomain;
use std::collections::BTreeMap;

/// Characters of the part of a key after its domain, beside letters and digits.
const PATH_CHARACTERS: &str = "/-._~%!$&'()*+,;=:";

/// The first fault of the extra fields, as Kubernetes' text; `None` if they may be impersonated.
pub(super) fn extra_fault(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(fault) = key_fault(key) {
            return Some(format!("impersonating an invalid key in extra is not allowed: {fault}"));
        }
        if *key != key.to_lowercase() {
            return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key:?}"));
        }
        let is_value_empty = values.iter().any(String::is_empty);
        is_value_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}

/// The fault of a key that is no path with a domain in front.
fn key_fault(key: &str) -> Option<String> {
    let invalid = |value: &str, fault: &str| format!("extra.key: Invalid value: {value:?}: {fault}");
    let Some((host, rest)) = key.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        return Some(invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")"));
    };
    let mut faults: Vec<String> =
        dns1123_subdomain(host).iter().map(|fault| invalid(host, fault.as_ref())).collect();
    if !rest.chars().all(|c| c.is_ascii_alphanumeric() || PATH_CHARACTERS.contains(c)) {
        let fault = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        faults.push(invalid(rest, fault));
    }
    match &faults[..] {
        [] => None,
        [fault] => Some(fault.clone()),
        faults => Some(format!("[{}]", faults.join(", "))),
    }
}

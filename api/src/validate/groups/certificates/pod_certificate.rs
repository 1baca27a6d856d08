//! Validation of pod certificate requests: what a node asks for, and the one answer of a signer. The apiserver checks the request and the
//! certificates themselves, since this crate has no cryptography.
//!
//! Follows `ValidatePodCertificateRequestCreate` and `ValidatePodCertificateRequestStatusUpdate`.

use super::signer_name;
use crate::check::metadata::annotations;
use crate::field::{ErrorList, Path};
use crate::limits::{
    CERTIFICATE_CHAIN_MAX, CERTIFICATE_REQUEST_MAX, POD_CERTIFICATE_SECONDS_MAX,
    POD_CERTIFICATE_SECONDS_MAX_OF_KUBERNETES, POD_CERTIFICATE_SECONDS_MIN, UID_MAX,
};
use crate::name;
use crate::object::{int, list, semantically_equal, text};
use crate::validate::groups::reference;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const SPEC: Path<'static> = Path::new("spec");
const STATUS: Path<'static> = Path::new("status");

/// Types of conditions that end a PodCertificateRequest.
const ANSWERS: [&str; 3] = ["Issued", "Denied", "Failed"];

pub(crate) fn spec(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    let signer = text(&spec["signerName"]);
    signer_name(errors, &SPEC.child("signerName"), signer);
    let user_annotations = "unverifiedUserAnnotations";
    annotations(errors, &SPEC.child(user_annotations), &spec[user_annotations]);
    for (named, uid) in
        [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
    {
        let own = text(&spec[named]);
        for fault in name::dns1123_subdomain(own) {
            errors.invalid(&SPEC.child(named), own, fault);
        }
        let own = text(&spec[uid]);
        if own.is_empty() {
            errors.invalid(&SPEC.child(uid), own, "must not be empty");
        }
        if own.len() > UID_MAX {
            errors.too_long(&SPEC.child(uid), UID_MAX);
        }
    }
    let is_of_kubernetes = signer
        .split('/')
        .next()
        .is_some_and(|domain| domain == "kubernetes.io" || domain.ends_with(".kubernetes.io"));
    let longest = match is_of_kubernetes {
        true => POD_CERTIFICATE_SECONDS_MAX_OF_KUBERNETES,
        false => POD_CERTIFICATE_SECONDS_MAX,
    };
    let seconds = int(&spec["maxExpirationSeconds"]);
    if !(POD_CERTIFICATE_SECONDS_MIN..=longest).contains(&seconds) {
        let detail = format!("must be in the range [{POD_CERTIFICATE_SECONDS_MIN}, {longest}]");
        errors.invalid(&SPEC.child("maxExpirationSeconds"), &seconds, detail);
    }
    let request = STANDARD.decode(text(&spec["stubPKCS10Request"])).unwrap_or_default();
    if request.len() > CERTIFICATE_REQUEST_MAX {
        errors.too_long(&SPEC.child("stubPKCS10Request"), CERTIFICATE_REQUEST_MAX);
    }
}

/// The answer that a request has, if any.
fn answer(object: &Value) -> Option<&'static str> {
    let conditions = list(&object["status"]["conditions"]);
    let has = |kind: &&str| conditions.iter().any(|one| one["type"] == **kind && one["status"] == "True");
    ANSWERS.into_iter().find(has)
}

pub(crate) fn status(new: &Value, old: &Value, errors: &mut ErrorList) {
    conditions(new, errors);
    if !errors.is_empty() {
        return;
    }
    let (own, before) = (&new["status"], &old["status"]);
    if answer(old).is_some() {
        unchanged(errors, own, before, "immutable after PodCertificateRequest is issued, denied, or failed");
        return;
    }
    match answer(new) {
        Some("Issued") => {
            if text(&own["certificateChain"]).len() > CERTIFICATE_CHAIN_MAX {
                errors.too_long(&STATUS.child("certificateChain"), CERTIFICATE_CHAIN_MAX);
            }
        }
        Some(_) => {
            let alone = json!({"conditions": own["conditions"]});
            let fault =
                "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            unchanged(errors, own, &alone, fault);
        }
        None => {
            let fault = "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
            unchanged(errors, own, before, fault);
        }
    }
}

fn unchanged(errors: &mut ErrorList, new: &Value, old: &Value, fault: &str) {
    if !semantically_equal(new, old) {
        errors.invalid(&STATUS, new, fault);
    }
}

fn conditions(object: &Value, errors: &mut ErrorList) {
    let path = STATUS.child("conditions");
    let mut answers = 0;
    for (at, condition) in list(&object["status"]["conditions"]).iter().enumerate() {
        let path = path.index(at);
        let kind = text(&condition["type"]);
        if !ANSWERS.contains(&kind) {
            errors.not_supported_as_listed(&path.child("type"), kind, &ANSWERS);
            continue;
        }
        answers += 1;
        if answers > 1 {
            let fault = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&path.child("type"), kind, fault);
        }
        if condition["status"] != "True" {
            errors.not_supported(&path.child("status"), text(&condition["status"]), &["True"]);
        }
    }
    reference::conditions(errors, &STATUS, &object["status"]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Value {
        json!({"metadata": {"name": "r", "namespace": "n"},
            "spec": {"signerName": "example.com/s", "podName": "p", "podUID": "1", "serviceAccountName": "a",
                "serviceAccountUID": "2", "nodeName": "node", "nodeUID": "3", "maxExpirationSeconds": 3600,
                "stubPKCS10Request": "AA=="}})
    }

    fn spec_faults(member: &str, value: Value) -> Vec<String> {
        let (mut object, mut errors) = (request(), ErrorList::new());
        object["spec"][member] = value;
        spec(&object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_names_its_pod_and_a_lifetime_in_the_range_of_its_signer() {
        assert_eq!(spec_faults("podUID", json!("1")), [""; 0]);
        let text = |member, value| spec_faults(member, value).join("; ");
        assert_eq!(text("podUID", json!("")), "spec.podUID: Invalid value: \"\": must not be empty");
        assert!(text("nodeUID", json!("u".repeat(129))).contains("Too long"));
        assert!(text("nodeName", json!("A")).contains("spec.nodeName: Invalid value: \"A\""));
        assert!(text("maxExpirationSeconds", json!(3599)).ends_with("must be in the range [3600, 7862400]"));
        assert_eq!(text("maxExpirationSeconds", json!(7_862_400)), "");
        assert!(text("signerName", json!("s")).contains("spec.signerName"));
        let big = STANDARD.encode(vec![0; CERTIFICATE_REQUEST_MAX + 1]);
        assert!(text("stubPKCS10Request", json!(big)).contains("Too long"));
        let mut own = request();
        own["spec"]["signerName"] = json!("kubernetes.io/s");
        own["spec"]["maxExpirationSeconds"] = json!(86_401);
        let mut errors = ErrorList::new();
        spec(&own, &mut errors);
        assert!(errors.aggregate().ends_with("must be in the range [3600, 86400]"), "{}", errors.aggregate());
    }

    fn answered(kind: &str, more: Value) -> Value {
        let mut object = request();
        object["status"] = more;
        object["status"]["conditions"] = json!([{"type": kind, "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        object
    }

    fn status_faults(new: &Value, old: &Value) -> String {
        let mut errors = ErrorList::new();
        status(new, old, &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_signer_answers_once() {
        let (open, denied, issued) =
            (request(), answered("Denied", json!({})), answered("Issued", json!({"certificateChain": "c"})));
        assert_eq!(status_faults(&denied, &open), "");
        assert_eq!(status_faults(&issued, &open), "");
        assert!(status_faults(&issued, &denied).contains("immutable after PodCertificateRequest is issued"));
        assert_eq!(status_faults(&denied, &denied), "");
        let wordy = answered("Failed", json!({"certificateChain": "c"}));
        assert!(status_faults(&wordy, &open).contains("non-condition status fields must be empty"));
        let mut half = open.clone();
        half["status"] = json!({"certificateChain": "c"});
        assert!(status_faults(&half, &open).contains("status is immutable unless transitioning to"));
        let odd = answered("Approved", json!({}));
        assert!(
            status_faults(&odd, &open).contains("status.conditions[0].type: Unsupported value: \"Approved\"")
        );
        let mut both = denied.clone();
        let mut second = issued["status"]["conditions"][0].clone();
        second["status"] = json!("False");
        both["status"]["conditions"].as_array_mut().unwrap().push(second);
        let faults = status_faults(&both, &open);
        assert!(
            faults.contains("There may be at most one condition")
                && faults.contains("status.conditions[1].status")
        );
        assert_eq!((answer(&open), answer(&denied), answer(&issued)), (None, Some("Denied"), Some("Issued")));
    }
}

//! Validation of projected volumes, which combine several sources.
//!
//! Follows `validateProjectedVolumeSource`.

use super::file;
use crate::check::metadata::annotations;
use crate::check::{relative_unreserved, required};
use crate::field::{ErrorList, Path};
use crate::limits::{
    POD_CERTIFICATE_SECONDS_MAX, POD_CERTIFICATE_SECONDS_MIN, TOKEN_SECONDS_MAX, TOKEN_SECONDS_MIN,
};
use crate::object::{int, list, text};
use crate::validate::groups::certificates::signer_name;
use crate::validate::groups::trust_bundle;
use crate::validate::selector;
use serde_json::Value;
use std::collections::BTreeSet;

/// Types of keys that a kubelet generates for a pod.
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

/// File paths already used in the volume, and the path for messages about duplicates.
struct TakenPaths<'p> {
    volume: &'p Path<'p>,
    paths: BTreeSet<String>,
}

impl TakenPaths<'_> {
    fn take(&mut self, errors: &mut ErrorList, path: &str, shown: &str) {
        if !path.is_empty() && !self.paths.insert(path.to_owned()) {
            errors.invalid(self.volume, shown, "conflicting duplicate paths");
        }
    }
}

pub(super) fn projected(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    file::mode(errors, &path.child("defaultMode"), &source["defaultMode"]);
    let mut taken = TakenPaths { volume: path, paths: BTreeSet::new() };
    let sources = path.child("sources");
    for (i, projection) in list(&source["sources"]).iter().enumerate() {
        let path = sources.index(i);
        one(errors, &path, projection, &mut taken);
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        if kinds.iter().filter(|kind| !projection[**kind].is_null()).count() > 1 {
            errors.forbidden(&path, "may not specify more than 1 volume type per source");
        }
    }
}

fn one(errors: &mut ErrorList, path: &Path<'_>, projection: &Value, taken: &mut TakenPaths<'_>) {
    for kind in ["secret", "configMap"] {
        let (path, source) = (path.child(kind), &projection[kind]);
        if source.is_null() {
            continue;
        }
        required(errors, &path.child("name"), &source["name"]);
        let items = path.child("items");
        for (i, item) in list(&source["items"]).iter().enumerate() {
            file::key_to_path(errors, &items.index(i), item);
            taken.take(errors, text(&item["path"]), text(&source["name"]));
        }
    }
    let downward = path.child("downwardAPI");
    for item in list(&projection["downwardAPI"]["items"]) {
        file::downward_file(errors, &downward, item);
        taken.take(errors, text(&item["path"]), text(&item["path"]));
    }
    if !projection["serviceAccountToken"].is_null() {
        token(errors, &path.child("serviceAccountToken"), &projection["serviceAccountToken"], taken.volume);
    }
    if !projection["clusterTrustBundle"].is_null() {
        // The path in Kubernetes' errors.
        trust_bundle(errors, &path.child("clusterTrustBundlePEM"), &projection["clusterTrustBundle"]);
        let file = text(&projection["clusterTrustBundle"]["path"]);
        taken.take(errors, file, file);
    }
    if !projection["podCertificate"].is_null() {
        pod_certificate(errors, &path.child("podCertificate"), &projection["podCertificate"], taken);
    }
}

fn pod_certificate(errors: &mut ErrorList, path: &Path<'_>, source: &Value, taken: &mut TakenPaths<'_>) {
    signer_name(errors, &path.child("signerName"), text(&source["signerName"]));
    let key_type = text(&source["keyType"]);
    if !KEY_TYPES.contains(&key_type) {
        errors.not_supported_as_listed(&path.child("keyType"), key_type, &KEY_TYPES);
    }
    if !source["maxExpirationSeconds"].is_null() {
        let (path, seconds) = (path.child("maxExpirationSeconds"), int(&source["maxExpirationSeconds"]));
        if seconds < POD_CERTIFICATE_SECONDS_MIN {
            let bound = format!("must be >= {POD_CERTIFICATE_SECONDS_MIN}");
            errors.invalid(&path, &seconds, format!("if provided, maxExpirationSeconds {bound}"));
        }
        if seconds > POD_CERTIFICATE_SECONDS_MAX {
            let bound = format!("must be <= {POD_CERTIFICATE_SECONDS_MAX}");
            errors.invalid(&path, &seconds, format!("if provided, maxExpirationSeconds {bound}"));
        }
    }
    let files = ["credentialBundlePath", "keyPath", "certificateChainPath"];
    for member in files {
        let file = text(&source[member]);
        if !file.is_empty() {
            relative_unreserved(errors, &path.child(member), file);
            taken.take(errors, file, file);
        }
    }
    if files.iter().all(|member| text(&source[*member]).is_empty()) {
        let fault = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(path, fault);
    }
    annotations(errors, &path.child("userAnnotations"), &source["userAnnotations"]);
}

fn trust_bundle(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let own = text(&source["name"]);
    match (source["name"].is_null(), source["signerName"].is_null()) {
        (false, false) => errors.invalid(path, source, "only one of name and signerName may be used"),
        (true, true) => errors.required(path, "either name or signerName must be specified"),
        (false, true) => {
            if own.is_empty() {
                errors.required(&path.child("name"), "must be a valid object name");
            }
            for fault in trust_bundle::reference_faults(own) {
                errors.invalid(
                    &path.child("name"),
                    own,
                    format!("not a valid clustertrustbundlename: {fault}"),
                );
            }
            if !source["labelSelector"].is_null() {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&path.child("labelSelector"), &source["labelSelector"], detail);
            }
        }
        (true, false) => {
            if text(&source["signerName"]).is_empty() {
                errors.required(&path.child("signerName"), "must be a valid signer name");
            }
            signer_name(errors, &path.child("signerName"), text(&source["signerName"]));
            selector::label_selector(errors, &path.child("labelSelector"), &source["labelSelector"]);
        }
    }
    match text(&source["path"]) {
        "" => errors.required(&path.child("path"), ""),
        file => relative_unreserved(errors, &path.child("path"), file),
    }
}

fn token(errors: &mut ErrorList, path: &Path<'_>, token: &Value, volume: &Path<'_>) {
    let (path, seconds) = (path.child("expirationSeconds"), int(&token["expirationSeconds"]));
    if seconds < TOKEN_SECONDS_MIN {
        errors.invalid(&path, &seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > TOKEN_SECONDS_MAX {
        errors.invalid(&path, &seconds, "may not specify a duration larger than 2^32 seconds");
    }
    match text(&token["path"]) {
        "" => errors.required(&volume.child("path"), ""),
        file => relative_unreserved(errors, &volume.child("path"), file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(sources: Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        projected(&mut errors, &Path::new("v"), &json!({ "sources": sources }));
        errors.iter().map(ToString::to_string).collect()
    }

    /// The tables of pods are judged in 1.36, which drops the member.
    #[test]
    fn certificates_of_pods_have_a_signer_a_known_key_and_files() {
        let good = json!({"signerName": "a.b/c", "keyType": "ED25519", "maxExpirationSeconds": 3600,
            "credentialBundlePath": "b", "keyPath": "k", "userAnnotations": {"a.b/c": "d"}});
        assert_eq!(faults(json!([{ "podCertificate": good }])), [""; 0]);
        let bare = json!({"signerName": "a.b/c", "keyType": "ECDSAP384", "maxExpirationSeconds": 3599});
        let odd = json!({"signerName": "", "keyType": "RSA2048", "maxExpirationSeconds": 7_862_401, "keyPath": "../k",
            "certificateChainPath": "../k"});
        let at = |index: usize, rest: &str| format!("v.sources[{index}]{rest}");
        assert_eq!(
            faults(json!([{ "podCertificate": bare }, { "podCertificate": odd, "secret": { "name": "s" } }])),
            [
                at(
                    0,
                    ".podCertificate.maxExpirationSeconds: Invalid value: 3599: if provided, maxExpirationSeconds must be >= 3600"
                ),
                at(
                    0,
                    ".podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
                ),
                at(1, ".podCertificate.signerName: Required value"),
                at(
                    1,
                    ".podCertificate.keyType: Unsupported value: \"RSA2048\": supported values: \"RSA3072\", \"RSA4096\", \"ECDSAP256\", \"ECDSAP384\", \"ECDSAP521\", \"ED25519\""
                ),
                at(
                    1,
                    ".podCertificate.maxExpirationSeconds: Invalid value: 7862401: if provided, maxExpirationSeconds must be <= 7862400"
                ),
                at(1, ".podCertificate.keyPath: Invalid value: \"../k\": must not contain '..'"),
                at(1, ".podCertificate.certificateChainPath: Invalid value: \"../k\": must not contain '..'"),
                "v: Invalid value: \"../k\": conflicting duplicate paths".to_owned(),
                at(1, ": Forbidden: may not specify more than 1 volume type per source"),
            ]
        );
    }
}

//! Warnings of kinds with one warning each.

use super::{address, block, old_label};
use crate::field::Path;
use crate::meta;
use crate::object::{list, text};
use crate::resource::Warnings;
use crate::validate::groups::certificates::pem;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Warning of the deprecated kind Endpoints.
pub(crate) const ENDPOINTS: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

pub(crate) fn node(spec: &Value, warnings: &mut Warnings) {
    if !spec["configSource"].is_null() {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(&spec["externalID"]).is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    let path = Path::new("spec.podCIDRs");
    for (i, own) in list(&spec["podCIDRs"]).iter().enumerate() {
        block(&path.index(i), text(own), warnings);
    }
}

/// Warns of a certificate and key that Go's `tls.X509KeyPair` does not find. What they contain is not checked: this crate has no
/// cryptography.
pub(crate) fn secret(object: &Value, warnings: &mut Warnings) {
    if object["type"] != "kubernetes.io/tls" {
        return;
    }
    let text_of = |key: &str| {
        let bytes = STANDARD.decode(text(&object["data"][key])).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (certificates, key) = (text_of("tls.crt"), text_of("tls.key"));
    warnings.extend(missing_certificate(&certificates).or_else(|| missing_key(&key)));
}

fn missing_certificate(text: &str) -> Option<String> {
    let labels: Vec<&str> = pem::blocks(text).map(|block| block.label).collect();
    match labels[..] {
        [] => Some("tls: failed to find any PEM data in certificate input".to_owned()),
        _ if labels.contains(&"CERTIFICATE") => None,
        [label] if label.ends_with("PRIVATE KEY") => Some(
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"
                .to_owned(),
        ),
        _ => Some(format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            labels.join(" ")
        )),
    }
}

fn missing_key(text: &str) -> Option<String> {
    let labels: Vec<&str> = pem::blocks(text).map(|block| block.label).collect();
    let is_key = |label: &&str| *label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    match labels[..] {
        [] => Some("tls: failed to find any PEM data in key input".to_owned()),
        _ if labels.iter().any(is_key) => None,
        ["CERTIFICATE"] => {
            Some("tls: found a certificate rather than a key in the PEM for the private key".to_owned())
        }
        _ => Some(format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            labels.join(" ")
        )),
    }
}

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

pub(crate) fn account(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    let had = old.is_some_and(|old| meta::annotation(old, MOUNTABLE).is_some());
    if !had && meta::annotation(object, MOUNTABLE).is_some() {
        warnings.push(format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ));
    }
}

/// Managers that write canonical addresses.
const CAREFUL: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(crate) fn slice(object: &Value, warnings: &mut Warnings) {
    let by = meta::label(object, "endpointslice.kubernetes.io/managed-by");
    if by.is_some_and(|by| CAREFUL.contains(&by)) {
        return;
    }
    let path = Path::new("endpoints");
    for (i, endpoint) in list(&object["endpoints"]).iter().enumerate() {
        let path = path.index(i);
        let path = path.child("addresses");
        for (j, own) in list(&endpoint["addresses"]).iter().enumerate() {
            address(&path.index(j), text(own), warnings);
        }
    }
}

pub(crate) fn ingress(object: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    if old.is_some() {
        return;
    }
    let named = object["spec"]["ingressClassName"].is_string();
    if !named && meta::annotation(object, "kubernetes.io/ingress.class").is_some() {
        warnings.push(
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                .to_owned(),
        );
    }
}

pub(crate) fn policy(spec: &Value, warnings: &mut Warnings) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (i, rule) in list(&spec[direction]).iter().enumerate() {
            for (j, peer) in list(&rule[peers]).iter().enumerate().filter(|(_, p)| p["ipBlock"].is_object()) {
                let at = format!("spec.{direction}[{i}].{peers}[{j}].ipBlock");
                let path = Path::new(&at);
                block(&path.child("cidr"), text(&peer["ipBlock"]["cidr"]), warnings);
                for (k, except) in list(&peer["ipBlock"]["except"]).iter().enumerate() {
                    block(&path.child("except").index(k), text(except), warnings);
                }
            }
        }
    }
}

pub(crate) fn runtime_class(object: &Value, warnings: &mut Warnings) {
    let labels = object["scheduling"]["nodeSelector"].as_object();
    let said = labels.into_iter().flatten().filter_map(|(key, _)| old_label(key));
    warnings.extend(said.map(|said| format!("scheduling.nodeSelector: {said}")));
}

pub(crate) fn devices(driver: &str, warnings: &mut Warnings) {
    if driver != driver.to_lowercase() {
        warnings.push(format!(
            "spec.driver: driver names should be lowercase; {driver:?} contains uppercase characters"
        ));
    }
}

pub(crate) fn driver(spec: &Value, old: Option<&Value>, warnings: &mut Warnings) {
    let wanted = list(&spec["tokenRequests"]);
    let same = old.is_some_and(|old| list(&old["spec"]["tokenRequests"]) == wanted);
    if !wanted.is_empty() && !same && spec["serviceAccountTokenInSecrets"].is_null() {
        warnings.push(
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of \
             tokens in volume attributes"
                .to_owned(),
        );
    }
}

pub(crate) fn capacity(selector: &Value, warnings: &mut Warnings) {
    for (i, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        let key = text(&expression["key"]);
        if let Some(said) = old_label(key) {
            warnings.push(format!("nodeTopology.matchExpressions[{i}].key: {key} is {said}"));
        }
    }
    for (key, _) in selector["matchLabels"].as_object().into_iter().flatten() {
        if let Some(said) = old_label(key) {
            warnings.push(format!("nodeTopology.matchLabels.{key}: {said}"));
        }
    }
}

pub(crate) fn class(object: &Value, warnings: &mut Warnings) {
    for (i, topology) in list(&object["allowedTopologies"]).iter().enumerate() {
        for (j, expression) in list(&topology["matchLabelExpressions"]).iter().enumerate() {
            if let Some(said) = old_label(text(&expression["key"])) {
                warnings.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {said}"));
            }
        }
    }
}

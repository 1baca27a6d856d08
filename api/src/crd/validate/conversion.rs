//! Validation of a definition's conversion. Errors name members of the internal type: `webhookClientConfig`,
//! `conversionReviewVersions`.

use super::options::Options;
use super::spec::one_of;
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};
use crate::validate::groups::admission::webhook;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NOT_A_WEBHOOK: &str = "should not be set when strategy is not set to Webhook";

/// Checks `spec.conversion`.
pub(super) fn check(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, options: &Options) {
    let conversion = &spec["conversion"];
    if conversion.is_null() {
        return;
    }
    let strategy = text(&conversion["strategy"]);
    if strategy != "None" && spec["preserveUnknownFields"] == true {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&path.child("strategy"), strategy, detail);
    }
    one_of(errors, &path.child("strategy"), strategy, &["None", "Webhook"]);
    let webhook = &conversion["webhook"];
    let (client, versions) = (&webhook["clientConfig"], &webhook["conversionReviewVersions"]);
    let client_path = path.child("webhookClientConfig");
    let versions_path = path.child("conversionReviewVersions");
    if strategy == "Webhook" {
        if client.is_null() {
            errors.required(&client_path, "required when strategy is set to Webhook");
        } else {
            target(errors, &client_path, client, options);
        }
        return review_versions(errors, &versions_path, versions, options);
    }
    if !client.is_null() {
        errors.forbidden(&client_path, NOT_A_WEBHOOK);
    }
    if !list(versions).is_empty() {
        errors.forbidden(&versions_path, NOT_A_WEBHOOK);
    }
}

fn target(errors: &mut ErrorList, path: &Path<'_>, client: &Value, options: &Options) {
    webhook::client(errors, path, client);
    let bundle = text(&client["caBundle"]);
    if options.valid_ca_bundle && !bundle.is_empty() && !super::is_certificate_bundle(bundle) {
        let detail =
            "unable to load root certificates: data does not contain any valid RSA or ECDSA certificates";
        errors.invalid(&path.child("caBundle"), bundle, detail);
    }
}

fn review_versions(errors: &mut ErrorList, path: &Path<'_>, versions: &Value, options: &Options) {
    if list(versions).is_empty() {
        return errors.required(path, "");
    }
    let mut seen = BTreeSet::new();
    for (i, own) in list(versions).iter().map(text).enumerate() {
        if !seen.insert(own) {
            errors.invalid(&path.index(i), own, "duplicate version");
            continue;
        }
        for fault in name::dns1035_label(own) {
            errors.invalid(&path.index(i), own, fault);
        }
    }
    if options.known_review_version && !seen.contains("v1") && !seen.contains("v1beta1") {
        errors.invalid(path, &json!(versions), "must include at least one of v1, v1beta1");
    }
}

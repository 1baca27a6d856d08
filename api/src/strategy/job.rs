//! Preparation of jobs: a job's selector and pod labels are generated from its uid, unless `manualSelector`
//! is set.
//!
//! Follows `generateSelector`.

use crate::meta;
use serde_json::{Value, json};

/// Label with the uid of a pod's job.
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
/// Label with the name of a pod's job.
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const LEGACY_CONTROLLER_UID: &str = "controller-uid";
const LEGACY_JOB_NAME: &str = "job-name";

pub(crate) fn prepare_create(object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (meta::name(object).to_owned(), meta::uid(object).to_owned());
    let template = &mut object["spec"]["template"];
    for (key, value) in
        [(CONTROLLER_UID, &uid), (LEGACY_CONTROLLER_UID, &uid), (JOB_NAME, &name), (LEGACY_JOB_NAME, &name)]
    {
        if meta::label(template, key).is_none() && template.is_object() {
            meta::set_label(template, key, value);
        }
    }
    labels_from_template(object);
    let selector = &mut object["spec"]["selector"];
    if selector.is_null() {
        *selector = json!({});
    }
    if selector["matchLabels"][CONTROLLER_UID].is_null() {
        selector["matchLabels"][CONTROLLER_UID] = uid.into();
    }
}

/// Sets the labels of a job without labels to those of its template, generated labels included.
fn labels_from_template(object: &mut Value) {
    let made = object["spec"]["template"]["metadata"]["labels"].clone();
    let none = meta::labels(object).is_none_or(|labels| labels.is_empty());
    if none && made.is_object() {
        meta::metadata_mut(object).insert("labels".to_owned(), made);
    }
}

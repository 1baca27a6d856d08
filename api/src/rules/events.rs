//! Kinds of the group `events.k8s.io`. Its events are stored as events of the core group.

use crate::resource::{FieldRule, KindRules, Labels, SelectableFields};
use crate::selector::field::event_source;
use crate::validate::groups::events;
use crate::{convert, table};

/// Selectable fields of events. Objects can be in either of the two APIs; the labels are those of the core group.
pub(crate) const FIELDS: &[(&str, FieldRule)] = &[
    (
        "involvedObject.apiVersion",
        FieldRule::Either(&["involvedObject", "apiVersion"], &["regarding", "apiVersion"]),
    ),
    (
        "involvedObject.fieldPath",
        FieldRule::Either(&["involvedObject", "fieldPath"], &["regarding", "fieldPath"]),
    ),
    ("involvedObject.kind", FieldRule::Either(&["involvedObject", "kind"], &["regarding", "kind"])),
    ("involvedObject.name", FieldRule::Either(&["involvedObject", "name"], &["regarding", "name"])),
    (
        "involvedObject.namespace",
        FieldRule::Either(&["involvedObject", "namespace"], &["regarding", "namespace"]),
    ),
    (
        "involvedObject.resourceVersion",
        FieldRule::Either(&["involvedObject", "resourceVersion"], &["regarding", "resourceVersion"]),
    ),
    ("involvedObject.uid", FieldRule::Either(&["involvedObject", "uid"], &["regarding", "uid"])),
    ("reason", FieldRule::At(&["reason"])),
    ("reportingComponent", FieldRule::Either(&["reportingComponent"], &["reportingController"])),
    ("source", FieldRule::By(event_source, &[&["source", "component"], &["reportingComponent"]])),
    ("type", FieldRule::At(&["type"])),
];

/// Labels of the fields in this group.
const LABELS: &[(&str, &str)] = &[
    ("reason", "reason"),
    ("regarding.apiVersion", "involvedObject.apiVersion"),
    ("regarding.fieldPath", "involvedObject.fieldPath"),
    ("regarding.kind", "involvedObject.kind"),
    ("regarding.name", "involvedObject.name"),
    ("regarding.namespace", "involvedObject.namespace"),
    ("regarding.resourceVersion", "involvedObject.resourceVersion"),
    ("regarding.uid", "involvedObject.uid"),
    ("reportingController", "reportingComponent"),
    ("type", "type"),
];

pub(crate) static EVENT: KindRules = KindRules {
    content: |object, _, errors| events::content(object, errors),
    create: events::create,
    change: events::change,
    plain_finalizers: true,
    printer: table::event::EVENT,
    fields: SelectableFields::of(FIELDS).labelled(Labels::Only(LABELS)),
    conversions: &[("v1", convert::event::to_new)],
    ..KindRules::NONE
};

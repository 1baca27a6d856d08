//! Kinds of the group `certificates.k8s.io`.

use crate::resource::{FieldRule, KindRules, Reset, SelectableFields, SubresourceRules, copy, status_only};
use crate::validate::groups::certificates::pod_certificate;
use crate::validate::groups::{certificates, trust_bundle};
use crate::{check, defaults, strategy, table};

pub(crate) static CERTIFICATE_SIGNING_REQUEST: KindRules = KindRules {
    prepare_update: |new, old| copy(new, old, "spec"),
    content: certificates::content,
    change: |new, old, errors| certificates::change("", new, old, errors),
    subresources: &[
        // A change cannot alter the specification, so a create owns nothing of it.
        SubresourceRules { reset: Reset::Fields(&["spec", "status"]), ..SubresourceRules::OBJECT },
        SubresourceRules {
            name: "approval",
            prepare: Some(strategy::certificate::approval_only),
            date: Some(strategy::certificate::date_conditions),
            validate: Some(|new, old, errors| {
                certificates::content(new, Some(old), errors);
                certificates::change("approval", new, old, errors);
            }),
            reset: Reset::Fields(&["spec", "status.certificate"]),
        },
        SubresourceRules {
            name: "status",
            prepare: Some(|new, old| {
                status_only(new, old);
                strategy::certificate::status_only(new, old);
            }),
            date: Some(strategy::certificate::date_conditions),
            validate: Some(|new, old, errors| {
                certificates::content(new, Some(old), errors);
                certificates::change("status", new, old, errors);
            }),
            reset: Reset::Fields(&["spec", "status.conditions"]),
        },
    ],
    printer: table::cluster::CERTIFICATE_REQUEST,
    fields: SelectableFields::of(&[("spec.signerName", FieldRule::At(&["spec", "signerName"]))]),
    ..KindRules::NONE
};

pub(crate) static CLUSTER_TRUST_BUNDLE: KindRules =
    KindRules { conversions: &[("certificates.k8s.io/v1", |_| {})], ..TRUST_BUNDLE };

pub(crate) static CLUSTER_TRUST_BUNDLE_V1: KindRules =
    KindRules { conversions: &[("certificates.k8s.io/v1beta1", |_| {})], ..TRUST_BUNDLE };

/// The rules of both versions of ClusterTrustBundles, which have the same members.
const TRUST_BUNDLE: KindRules = KindRules {
    content: trust_bundle::content,
    change: trust_bundle::change,
    printer: table::cluster::TRUST_BUNDLE,
    fields: SelectableFields::of(&[("spec.signerName", FieldRule::At(&["spec", "signerName"]))]),
    ..KindRules::NONE
};

pub(crate) static POD_CERTIFICATE_REQUEST: KindRules = KindRules {
    defaults: defaults::certificates::pod_certificate_request,
    content: |object, old, errors| {
        if old.is_none() {
            pod_certificate::spec(object, errors);
        }
    },
    change: |new, old, errors| check::immutable(errors, "spec", new, old),
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA.checked(pod_certificate::status)],
    printer: table::cluster::POD_CERTIFICATE_REQUEST,
    fields: SelectableFields::of(&[
        ("spec.nodeName", FieldRule::At(&["spec", "nodeName"])),
        ("spec.podName", FieldRule::At(&["spec", "podName"])),
        ("spec.signerName", FieldRule::At(&["spec", "signerName"])),
    ]),
    ..KindRules::NONE
};

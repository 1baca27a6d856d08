//! Kinds of the group `admissionregistration.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::admission;
use crate::{defaults, table};

pub(crate) static MUTATING_ADMISSION_POLICY: KindRules = KindRules {
    defaults: defaults::admission::policy,
    content: admission::policy::mutating,
    plain_finalizers: true,
    printer: table::admission::MUTATING,
    ..KindRules::NONE
};

pub(crate) static MUTATING_ADMISSION_POLICY_BINDING: KindRules = KindRules {
    defaults: defaults::admission::binding,
    content: |object, _, errors| admission::policy::mutating_binding(object, errors),
    plain_finalizers: true,
    printer: table::admission::BINDING,
    ..KindRules::NONE
};

pub(crate) static MUTATING_WEBHOOK_CONFIGURATION: KindRules = KindRules {
    defaults: defaults::admission::mutating_webhooks,
    content: admission::webhook::mutating,
    plain_finalizers: true,
    printer: table::admission::WEBHOOKS,
    ..KindRules::NONE
};

pub(crate) static VALIDATING_ADMISSION_POLICY: KindRules = KindRules {
    defaults: defaults::admission::policy,
    content: admission::policy::validating,
    plain_finalizers: true,
    subresources: &[SubresourceRules::STATUS.checked(|new, _, errors| admission::policy_status(new, errors))],
    printer: table::admission::VALIDATING,
    ..KindRules::NONE
};

pub(crate) static VALIDATING_ADMISSION_POLICY_BINDING: KindRules = KindRules {
    defaults: defaults::admission::binding,
    content: |object, _, errors| admission::policy::validating_binding(object, errors),
    plain_finalizers: true,
    printer: table::admission::BINDING,
    ..KindRules::NONE
};

pub(crate) static VALIDATING_WEBHOOK_CONFIGURATION: KindRules = KindRules {
    defaults: defaults::admission::validating_webhooks,
    content: admission::webhook::validating,
    plain_finalizers: true,
    printer: table::admission::WEBHOOKS,
    ..KindRules::NONE
};

//! Kinds of the group `resource.k8s.io`.

use crate::object::text;
use crate::resource::{FieldRule, KindRules, SelectableFields, SubresourceRules, status_only};
use crate::validate::groups::devices;
use crate::validate::warning;
use crate::{check, defaults, strategy, table};

pub(crate) static DEVICE_CLASS: KindRules = KindRules {
    content: |object, _, errors| devices::class(&object["spec"], errors),
    printer: table::devices::PLAIN,
    ..KindRules::NONE
};

pub(crate) static DEVICE_TAINT_RULE: KindRules = KindRules {
    prepare_create: strategy::devices::date_rule,
    subresources: &[
        SubresourceRules { date: Some(strategy::devices::date_changed_rule), ..SubresourceRules::OBJECT },
        SubresourceRules::STATUS_WITHOUT_METADATA.checked(devices::taint_rule::status),
    ],
    content: devices::taint_rule::spec,
    printer: table::devices::NAMED,
    ..KindRules::NONE
};

pub(crate) static RESOURCE_CLAIM: KindRules = KindRules {
    defaults: defaults::devices::claim,
    create: devices::claim,
    // An immutable spec is not validated again.
    change: |new, old, errors| check::immutable(errors, "spec", new, old),
    subresources: &[SubresourceRules {
        prepare: Some(|new, old| {
            status_only(new, old);
            strategy::devices::drop_deallocated_devices(new, old);
        }),
        ..SubresourceRules::STATUS_WITHOUT_METADATA.checked(devices::status)
    }],
    printer: table::devices::CLAIM,
    ..KindRules::NONE
};

pub(crate) static RESOURCE_CLAIM_TEMPLATE: KindRules = KindRules {
    defaults: defaults::devices::claim_template,
    create: devices::claim_template,
    change: |new, old, errors| check::immutable(errors, "spec", new, old),
    printer: table::devices::PLAIN,
    ..KindRules::NONE
};

pub(crate) static RESOURCE_SLICE: KindRules = KindRules {
    prepare_create: strategy::devices::date_taints,
    prepare_update: strategy::devices::keep_dates,
    subresources: &[SubresourceRules {
        date: Some(strategy::devices::date_new_taints),
        ..SubresourceRules::OBJECT
    }],
    content: |object, old, errors| devices::slice::spec(&object["spec"], old, errors),
    warnings: |object, _, warnings| warning::other::devices(text(&object["spec"]["driver"]), warnings),
    printer: table::devices::SLICE,
    fields: SelectableFields::of(&[
        ("spec.driver", FieldRule::At(&["spec", "driver"])),
        ("spec.nodeName", FieldRule::At(&["spec", "nodeName"])),
        ("spec.pool.name", FieldRule::At(&["spec", "pool", "name"])),
    ]),
    ..KindRules::NONE
};

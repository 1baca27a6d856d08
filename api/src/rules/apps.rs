//! Kinds of the group `apps`.

use crate::resource::{KindRules, Reset, SubresourceRules, status_only};
use crate::validate::workload::status;
use crate::validate::{warning, workload};
use crate::{check, defaults, strategy, table};

const TEMPLATE: Option<&[&str]> = Some(&["spec", "template"]);

pub(crate) static CONTROLLER_REVISION: KindRules = KindRules {
    content: |object, _, errors| workload::revision(object, errors),
    create: workload::revision_create,
    change: workload::revision_change,
    printer: table::workload::CONTROLLER_REVISION,
    ..KindRules::NONE
};

pub(crate) static DAEMON_SET: KindRules = KindRules {
    defaults: defaults::workload::daemon_set,
    pod_template: TEMPLATE,
    prepare_create: strategy::daemon_set::prepare_create,
    prepare_update: strategy::daemon_set::prepare_update,
    create: workload::daemon_set,
    change: |new, old, errors| {
        workload::daemon_set_change(new, old, errors);
        workload::daemon_set(new, errors);
    },
    warnings: warning::workload::daemon_set,
    subresources: &[SubresourceRules::STATUS.checked(status::daemon_set)],
    printer: table::workload::DAEMON_SET,
    ..KindRules::NONE
};

pub(crate) static DEPLOYMENT: KindRules = KindRules {
    defaults: defaults::workload::deployment,
    pod_template: TEMPLATE,
    content: |object, _, errors| workload::deployment(object, errors),
    change: |new, old, errors| check::immutable(errors, "spec.selector", new, old),
    warnings: warning::workload::template_owner,
    subresources: &[SubresourceRules {
        prepare: Some(|new, old| {
            status_only(new, old);
            strategy::copy_metadata(new, old, "labels");
        }),
        reset: Reset::Fields(&["metadata.labels", "spec"]),
        ..SubresourceRules::STATUS.checked(status::deployment)
    }],
    printer: table::workload::DEPLOYMENT,
    ..KindRules::NONE
};

pub(crate) static REPLICA_SET: KindRules = KindRules {
    defaults: defaults::workload::replica_set,
    pod_template: TEMPLATE,
    content: |object, _, errors| workload::replica_set(object, errors),
    change: |new, old, errors| check::immutable(errors, "spec.selector", new, old),
    warnings: warning::workload::template_owner,
    subresources: &[SubresourceRules::STATUS.checked(status::replicas)],
    printer: table::workload::REPLICA_SET,
    ..KindRules::NONE
};

pub(crate) static STATEFUL_SET: KindRules = KindRules {
    defaults: defaults::workload::stateful_set,
    pod_template: TEMPLATE,
    create: workload::stateful_set_create,
    change: |new, old, errors| {
        workload::stateful_set(new, errors);
        workload::stateful_set_change(new, old, errors);
    },
    warnings: warning::workload::stateful_set,
    subresources: &[SubresourceRules::STATUS.checked(status::stateful_set)],
    printer: table::workload::STATEFUL_SET,
    ..KindRules::NONE
};

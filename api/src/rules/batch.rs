//! Kinds of the group `batch`.

use crate::resource::{FieldRule, KindRules, SelectableFields, SubresourceRules};
use crate::validate::{self, warning};
use crate::version::Minor;
use crate::{defaults, strategy, table};

pub(crate) static CRON_JOB: KindRules = KindRules {
    defaults: defaults::batch::cron_job,
    pod_template: Some(&["spec", "jobTemplate", "spec", "template"]),
    create: validate::batch::cron_job_create,
    change: validate::batch::cron_job_change,
    warnings: warning::workload::cron_job,
    printer: table::batch::CRON_JOB,
    ..KindRules::NONE
};

pub(crate) static JOB: KindRules = KindRules {
    defaults: defaults::batch::job,
    shares_template_labels: true,
    pod_template: Some(&["spec", "template"]),
    prepare_create: strategy::job::prepare_create,
    content: |object, _, errors| validate::batch::job(object, errors),
    change: validate::batch::job_change,
    warnings: warning::workload::job,
    subresources: &[SubresourceRules::STATUS.checked(validate::batch::job_status)],
    printer: table::batch::JOB,
    former_printers: &[(Minor::V33, table::batch::JOB_WITHOUT_CRITERIA)],
    fields: SelectableFields {
        refusal: |field| format!("field label \"{field}\" not supported for Job"),
        ..SelectableFields::of(&[("status.successful", FieldRule::Or(&["status", "succeeded"], "0"))])
    },
    ..KindRules::NONE
};

//! Kinds of the group `scheduling.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::{pod_group, scheduling};
use crate::{convert, defaults, table};

pub(crate) static PRIORITY_CLASS: KindRules = KindRules {
    defaults: defaults::scheduling::priority_class,
    create: scheduling::priority_class,
    change: scheduling::priority_class_change,
    printer: table::cluster::PRIORITY_CLASS,
    ..KindRules::NONE
};

pub(crate) static POD_GROUP: KindRules = KindRules {
    defaults: defaults::scheduling::pod_group,
    create: pod_group::create,
    change: pod_group::change,
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA.checked(pod_group::status)],
    printer: table::pod_group::POD_GROUP,
    conversions: &[("scheduling.k8s.io/v1alpha2", convert::pod_group::to_beta)],
    ..KindRules::NONE
};

pub(crate) static WORKLOAD: KindRules = KindRules {
    create: pod_group::workload,
    change: pod_group::workload_change,
    printer: table::pod_group::WORKLOAD,
    conversions: &[("scheduling.k8s.io/v1alpha2", convert::pod_group::workload_to_beta)],
    ..KindRules::NONE
};

pub(crate) static POD_GROUP_ALPHA: KindRules = KindRules {
    create: pod_group::alpha_create,
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA.checked(pod_group::alpha_status)],
    printer: table::pod_group::POD_GROUP_ALPHA,
    conversions: &[("scheduling.k8s.io/v1beta1", convert::pod_group::to_alpha)],
    ..KindRules::NONE
};

pub(crate) static WORKLOAD_ALPHA: KindRules = KindRules {
    create: pod_group::alpha_workload,
    printer: table::pod_group::WORKLOAD,
    conversions: &[("scheduling.k8s.io/v1beta1", convert::pod_group::workload_to_alpha)],
    ..KindRules::NONE
};

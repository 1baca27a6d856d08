//! Kinds of the group `autoscaling`: one kind in two versions.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::autoscaling;
use crate::{convert, defaults, table};

/// Version v2, in which autoscalers are stored.
pub(crate) static HORIZONTAL_POD_AUTOSCALER: KindRules = V2;

/// Version v1.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V1: KindRules = KindRules {
    defaults: |object| defaults::autoscaling::autoscaler("v1", object),
    printer: table::autoscaling::V1,
    conversions: &[("autoscaling/v2", convert::autoscaler::to_v1)],
    ..V2
};

const V2: KindRules = KindRules {
    defaults: |object| defaults::autoscaling::autoscaler("v2", object),
    content: autoscaling::in_any_version,
    subresources: &[SubresourceRules::STATUS.checked(|new, _, errors| autoscaling::status(new, errors))],
    printer: table::autoscaling::V2,
    conversions: &[("autoscaling/v1", convert::autoscaler::to_v2)],
    ..KindRules::NONE
};

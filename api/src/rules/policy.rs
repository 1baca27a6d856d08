//! Kinds of the group `policy`.

use crate::resource::{KindRules, SubresourceRules};
use crate::table;
use crate::validate::groups::policy;

pub(crate) static POD_DISRUPTION_BUDGET: KindRules = KindRules {
    content: |object, _, errors| policy::budget(object, errors),
    plain_finalizers: true,
    subresources: &[SubresourceRules::STATUS.checked(|new, _, errors| policy::budget_status(new, errors))],
    printer: table::autoscaling::DISRUPTION_BUDGET,
    ..KindRules::NONE
};

//! Kinds of the group `flowcontrol.apiserver.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::flowcontrol;
use crate::{defaults, table};

const STATUS: &[SubresourceRules] =
    &[SubresourceRules::STATUS_WITHOUT_METADATA.checked(|new, _, errors| flowcontrol::status(new, errors))];

pub(crate) static FLOW_SCHEMA: KindRules = KindRules {
    defaults: defaults::flowcontrol::flow_schema,
    content: |object, _, errors| flowcontrol::schema(object, errors),
    subresources: STATUS,
    printer: table::flowcontrol::FLOW_SCHEMA,
    ..KindRules::NONE
};

pub(crate) static PRIORITY_LEVEL_CONFIGURATION: KindRules = KindRules {
    defaults: defaults::flowcontrol::priority_level,
    content: |object, _, errors| flowcontrol::level(object, errors),
    subresources: STATUS,
    printer: table::flowcontrol::PRIORITY_LEVEL,
    ..KindRules::NONE
};

//! Kinds of the group `discovery.k8s.io`.

use crate::resource::KindRules;
use crate::validate::groups::endpoint_slice;
use crate::validate::warning;
use crate::{defaults, table};

pub(crate) static ENDPOINT_SLICE: KindRules = KindRules {
    defaults: defaults::networking::endpoint_slice,
    content: endpoint_slice::content,
    change: endpoint_slice::change,
    warnings: |object, _, warnings| warning::other::slice(object, warnings),
    printer: table::networking::ENDPOINT_SLICE,
    ..KindRules::NONE
};

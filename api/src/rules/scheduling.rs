//! Kinds of the group `scheduling.k8s.io`.

use crate::resource::KindRules;
use crate::validate::groups::scheduling;
use crate::{defaults, table};

pub(crate) static PRIORITY_CLASS: KindRules = KindRules {
    defaults: defaults::scheduling::priority_class,
    create: scheduling::priority_class,
    change: scheduling::priority_class_change,
    printer: table::cluster::PRIORITY_CLASS,
    ..KindRules::NONE
};

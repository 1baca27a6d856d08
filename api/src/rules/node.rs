//! Kinds of the group `node.k8s.io`.

use crate::resource::KindRules;
use crate::table;
use crate::validate::groups::scheduling;
use crate::validate::warning;

pub(crate) static RUNTIME_CLASS: KindRules = KindRules {
    // The handler of a stored class is immutable, and the rest was checked on create.
    create: scheduling::runtime_class,
    change: scheduling::runtime_class_change,
    warnings: |object, _, warnings| warning::other::runtime_class(object, warnings),
    printer: table::cluster::RUNTIME_CLASS,
    ..KindRules::NONE
};

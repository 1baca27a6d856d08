//! Kinds of the group `coordination.k8s.io`.

use crate::resource::KindRules;
use crate::table;
use crate::validate::groups::coordination;

pub(crate) static LEASE: KindRules = KindRules {
    content: |object, _, errors| coordination::lease(object, errors),
    plain_finalizers: true,
    printer: table::cluster::LEASE,
    ..KindRules::NONE
};

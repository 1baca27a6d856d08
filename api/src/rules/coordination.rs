//! Kinds of the group `coordination.k8s.io`.

use crate::resource::KindRules;
use crate::validate::groups::coordination;
use crate::{strategy, table};

pub(crate) static LEASE: KindRules = KindRules {
    content: |object, _, errors| coordination::lease(object, errors),
    drop_disabled: strategy::disabled::of_lease,
    plain_finalizers: true,
    printer: table::cluster::LEASE,
    ..KindRules::NONE
};

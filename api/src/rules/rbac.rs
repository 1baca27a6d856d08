//! Kinds of the group `rbac.authorization.k8s.io`.

use crate::resource::KindRules;
use crate::validate::groups::rbac;
use crate::{defaults, table};

pub(crate) static CLUSTER_ROLE: KindRules =
    KindRules { content: |object, _, errors| rbac::cluster_role(object, errors), ..KindRules::NONE };

pub(crate) static CLUSTER_ROLE_BINDING: KindRules =
    KindRules { content: |object, _, errors| rbac::cluster_role_binding(object, errors), ..BINDING };

pub(crate) static ROLE: KindRules =
    KindRules { content: |object, _, errors| rbac::role(object, errors), ..KindRules::NONE };

pub(crate) static ROLE_BINDING: KindRules =
    KindRules { content: |object, _, errors| rbac::role_binding(object, errors), ..BINDING };

const BINDING: KindRules = KindRules {
    defaults: defaults::rbac::binding,
    change: rbac::binding_change,
    printer: table::rbac::BINDING,
    ..KindRules::NONE
};

//! Kinds of the group `authorization.k8s.io`. The apiserver answers them and does not store them.

use crate::resource::KindRules;
use crate::validate::groups::reviews;

pub(crate) static LOCAL_SUBJECT_ACCESS_REVIEW: KindRules =
    KindRules { content: |object, _, errors| reviews::local_access(object, errors), ..KindRules::NONE };

pub(crate) static SELF_SUBJECT_ACCESS_REVIEW: KindRules =
    KindRules { content: |object, _, errors| reviews::own_access(object, errors), ..KindRules::NONE };

pub(crate) static SELF_SUBJECT_RULES_REVIEW: KindRules = KindRules::NONE;

pub(crate) static SUBJECT_ACCESS_REVIEW: KindRules =
    KindRules { content: |object, _, errors| reviews::access(object, errors), ..KindRules::NONE };

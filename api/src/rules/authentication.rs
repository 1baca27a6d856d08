//! Kinds of the group `authentication.k8s.io`. The apiserver answers them and does not store them.

use crate::resource::KindRules;

pub(crate) static SELF_SUBJECT_REVIEW: KindRules = KindRules::NONE;

pub(crate) static TOKEN_REVIEW: KindRules = KindRules::NONE;

//! Kinds of the group `apiextensions.k8s.io`.

use crate::crd::{strategy, validate};
use crate::resource::{KindRules, SubresourceRules};
use crate::table;
use crate::version::Minor;

pub(crate) static CUSTOM_RESOURCE_DEFINITION: KindRules = KindRules {
    defaults: strategy::set_defaults,
    prepare_create: strategy::prepare_create,
    prepare_update: strategy::prepare_update,
    content: |object, old, errors| {
        errors.extend(match old {
            None => validate::create(object),
            Some(old) => validate::update(object, old),
        });
    },
    plain_finalizers: true,
    later_printer: Some((Minor::V37, table::definition::SERVED_VERSIONS)),
    subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA
        .checked(|new, _, errors| errors.extend(validate::update_status(new)))],
    ..KindRules::NONE
};

//! Kinds of the group `apiregistration.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::strategy::api_service;
use crate::validate::groups::registration;
use crate::{defaults, table};

pub(crate) static API_SERVICE: KindRules = KindRules {
    defaults: defaults::registration::api_service,
    prepare_create: api_service::prepare_create,
    prepare_update: api_service::prepare_update,
    content: |object, _, errors| registration::content(object, errors),
    plain_finalizers: true,
    subresources: &[
        SubresourceRules::STATUS_WITHOUT_METADATA.checked(|new, _, errors| registration::status(new, errors))
    ],
    printer: table::registration::API_SERVICE,
    ..KindRules::NONE
};

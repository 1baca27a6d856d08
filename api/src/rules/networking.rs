//! Kinds of the group `networking.k8s.io`.

use crate::resource::{KindRules, SubresourceRules};
use crate::validate::groups::{ingress, network_policy, service_address};
use crate::validate::{ratchet, warning};
use crate::version::Minor;
use crate::{defaults, table};

pub(crate) static INGRESS: KindRules = KindRules {
    content: |object, _, errors| ingress::ingress(object, errors),
    create: ingress::ingress_create,
    ratcheted: ratchet::of_ingress,
    warnings: warning::other::ingress,
    subresources: &[SubresourceRules::STATUS.checked(|new, _, errors| ingress::ingress_status(new, errors))],
    printer: table::networking::INGRESS,
    ..KindRules::NONE
};

pub(crate) static INGRESS_CLASS: KindRules = KindRules {
    defaults: defaults::networking::ingress_class,
    content: |object, _, errors| ingress::class(object, errors),
    change: ingress::class_change,
    printer: table::networking::INGRESS_CLASS,
    former_printers: &[(Minor::V35, table::networking::UNMARKED_INGRESS_CLASS)],
    ..KindRules::NONE
};

pub(crate) static IP_ADDRESS: KindRules = KindRules {
    create: service_address::ip_address,
    change: service_address::ip_address_change,
    printer: table::networking::IP_ADDRESS,
    ..KindRules::NONE
};

pub(crate) static NETWORK_POLICY: KindRules = KindRules {
    defaults: defaults::networking::network_policy,
    content: network_policy::content,
    warnings: |object, _, warnings| warning::other::policy(&object["spec"], warnings),
    printer: table::networking::NETWORK_POLICY,
    ..KindRules::NONE
};

pub(crate) static SERVICE_CIDR: KindRules = KindRules {
    create: service_address::service_cidr,
    change: service_address::service_cidr_change,
    printer: table::networking::SERVICE_CIDR,
    ..KindRules::NONE
};

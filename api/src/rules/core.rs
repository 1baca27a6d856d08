//! Kinds of the core group.

use super::events;
use crate::resource::{FieldRule, KindRules, Labels, Reset, SelectableFields, SubresourceRules, status_only};
use crate::selector::field::{NAME, pod_ips};
use crate::validate::{self, ratchet, warning};
use crate::version::Minor;
use crate::{defaults, strategy, table};
use serde_json::json;

pub(crate) static BINDING: KindRules = KindRules::NONE;

pub(crate) static COMPONENT_STATUS: KindRules =
    KindRules { printer: table::cluster::COMPONENT_STATUS, ..KindRules::NONE };

pub(crate) static CONFIG_MAP: KindRules = KindRules {
    content: |object, _, errors| validate::config::config_map(object, errors),
    change: validate::config::config_map_change,
    printer: table::cluster::CONFIG_MAP,
    ..KindRules::NONE
};

pub(crate) static ENDPOINTS: KindRules = KindRules {
    defaults: defaults::networking::endpoints,
    content: validate::endpoints::content,
    warnings: |_, _, warnings| warnings.push(warning::other::ENDPOINTS.to_owned()),
    printer: table::networking::ENDPOINTS,
    ..KindRules::NONE
};

pub(crate) static EVENT: KindRules = KindRules {
    content: |object, _, errors| validate::event::content(object, errors),
    plain_finalizers: true,
    printer: table::event::CORE,
    fields: SelectableFields::of(events::FIELDS),
    conversions: &[("events.k8s.io/v1", crate::convert::event::to_core)],
    ..KindRules::NONE
};

pub(crate) static LIMIT_RANGE: KindRules = KindRules {
    defaults: defaults::core::limit_range,
    prepare_create: strategy::limit_range::prepare_create,
    content: |object, _, errors| validate::limit_range::content(object, errors),
    ..KindRules::NONE
};

pub(crate) static NAMESPACE: KindRules = KindRules {
    defaults: defaults::core::namespace,
    prepare_create: strategy::namespace::prepare_create,
    prepare_update: strategy::namespace::prepare_update,
    create: validate::namespace::create,
    subresources: &[
        SubresourceRules {
            name: "finalize",
            validate: Some(|new, _, errors| validate::namespace::finalize(new, errors)),
            reset: Reset::Fields(&["status"]),
            ..SubresourceRules::OBJECT
        },
        SubresourceRules::STATUS.checked(|new, _, errors| validate::namespace::status(new, errors)),
    ],
    printer: table::cluster::NAMESPACE,
    fields: SelectableFields::of(&[("status.phase", FieldRule::At(&["status", "phase"]))])
        .labelled(Labels::Also(&[("name", NAME)])),
    ..KindRules::NONE
};

pub(crate) static NODE: KindRules = KindRules {
    defaults: defaults::core::node,
    drop_disabled: strategy::disabled::of_node,
    // Nodes register with their status.
    keeps_status_at_create: true,
    content: |object, _, errors| validate::node::content(object, errors),
    change: validate::node::change,
    warnings: |object, _, warnings| warning::other::node(&object["spec"], warnings),
    subresources: &[SubresourceRules::STATUS.checked(validate::node::status)],
    printer: table::node::NODE,
    former_printers: &[(Minor::V35, table::node::NODE_WITHOUT_ARCHITECTURE)],
    fields: SelectableFields::of(&[(
        "spec.unschedulable",
        FieldRule::Or(&["spec", "unschedulable"], "false"),
    )]),
    ..KindRules::NONE
};

pub(crate) static PERSISTENT_VOLUME: KindRules = KindRules {
    defaults: defaults::storage::volume,
    prepare_create: |object| {
        let now = object["metadata"]["creationTimestamp"].clone();
        object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
    },
    content: |object, _, errors| validate::volume::content(object, errors),
    change: validate::volume::change,
    warnings: |object, _, warnings| warning::volume::volume(object, warnings),
    subresources: &[SubresourceRules {
        date: Some(strategy::volume::date_phase),
        ..SubresourceRules::STATUS
    }],
    printer: table::storage::VOLUME,
    ..KindRules::NONE
};

pub(crate) static PERSISTENT_VOLUME_CLAIM: KindRules = KindRules {
    defaults: defaults::storage::claim,
    prepare_create: |object| {
        object["status"] = json!({"phase": "Pending"});
        strategy::claim::prepare(object, None);
    },
    prepare_update: |new, old| strategy::claim::prepare(new, Some(old)),
    content: |object, _, errors| validate::claim::content(object, errors),
    change: validate::claim::change,
    ratcheted: ratchet::of_claim,
    warnings: |object, _, warnings| warning::volume::claim(object, warnings),
    subresources: &[SubresourceRules::STATUS.checked(|new, _, errors| validate::claim::status(new, errors))],
    printer: table::storage::CLAIM,
    ..KindRules::NONE
};

pub(crate) static POD: KindRules = KindRules {
    defaults: defaults::pod::pod,
    pod_template: Some(&[]),
    prepare_create: strategy::pod::prepare_create,
    content: |object, _, errors| validate::pod::content(object, errors),
    create: validate::pod::create,
    change: validate::pod::change,
    warnings: warning::workload::pod,
    subresources: POD_SUBRESOURCES,
    printer: table::pod::POD,
    row_conditions: table::pod::row_conditions,
    fields: SelectableFields::of(&[
        ("spec.hostNetwork", FieldRule::Or(&["spec", "hostNetwork"], "false")),
        ("spec.nodeName", FieldRule::At(&["spec", "nodeName"])),
        ("spec.restartPolicy", FieldRule::At(&["spec", "restartPolicy"])),
        ("spec.schedulerName", FieldRule::At(&["spec", "schedulerName"])),
        ("spec.serviceAccountName", FieldRule::At(&["spec", "serviceAccountName"])),
        ("status.nominatedNodeName", FieldRule::At(&["status", "nominatedNodeName"])),
        ("status.phase", FieldRule::At(&["status", "phase"])),
        ("status.podIP", FieldRule::At(&["status", "podIP"])),
        ("status.podIPs", FieldRule::By(pod_ips, &[&["status", "podIPs"]])),
    ])
    .labelled(Labels::Also(&[("spec.host", "spec.nodeName")])),
    ..KindRules::NONE
};

const POD_SUBRESOURCES: &[SubresourceRules] = &[
    SubresourceRules {
        name: "ephemeralcontainers",
        prepare: Some(strategy::pod::ephemeral_containers_only),
        validate: Some(|new, old, errors| {
            validate::pod::content(new, errors);
            validate::pod::ephemeral_containers(new, old, errors);
        }),
        reset: Reset::AllBut(&[&["spec", "ephemeralContainers"]]),
        ..SubresourceRules::OBJECT
    },
    SubresourceRules {
        name: "resize",
        prepare: Some(strategy::pod::resources_only),
        validate: Some(|new, old, errors| {
            validate::pod::content(new, errors);
            validate::pod::resize(new, old, errors);
        }),
        reset: Reset::AllBut(&[
            &["spec", "containers", "*", "resources"],
            &["spec", "containers", "*", "resizePolicy"],
            &["spec", "initContainers", "*", "resources"],
            &["spec", "initContainers", "*", "resizePolicy"],
            &["spec", "resources"],
        ]),
        ..SubresourceRules::OBJECT
    },
    SubresourceRules {
        prepare: Some(|new, old| {
            status_only(new, old);
            strategy::copy_metadata(new, old, "ownerReferences");
            strategy::pod::status_only(new, old);
        }),
        reset: Reset::Fields(&["metadata.deletionTimestamp", "metadata.ownerReferences", "spec"]),
        ..SubresourceRules::STATUS.checked(validate::pod::status)
    },
];

pub(crate) static POD_TEMPLATE: KindRules = KindRules {
    defaults: |object| defaults::pod::template(object, "template"),
    pod_template: Some(&["template"]),
    content: |object, _, errors| validate::pod::template_object(object, errors),
    warnings: warning::workload::pod_template,
    printer: table::workload::POD_TEMPLATE,
    ..KindRules::NONE
};

pub(crate) static REPLICATION_CONTROLLER: KindRules = KindRules {
    defaults: defaults::workload::replication_controller,
    pod_template: Some(&["spec", "template"]),
    content: |object, _, errors| validate::workload::replication_controller(object, errors),
    warnings: warning::workload::replication_controller,
    subresources: &[SubresourceRules::STATUS.checked(validate::workload::status::replicas)],
    printer: table::workload::REPLICATION_CONTROLLER,
    fields: SelectableFields::of(&[("status.replicas", FieldRule::Or(&["status", "replicas"], "0"))]),
    ..KindRules::NONE
};

pub(crate) static RESOURCE_QUOTA: KindRules = KindRules {
    content: |object, _, errors| validate::quota::content(object, errors),
    change: validate::quota::change,
    subresources: &[SubresourceRules::STATUS.checked(|new, _, errors| validate::quota::status(new, errors))],
    printer: table::cluster::RESOURCE_QUOTA,
    ..KindRules::NONE
};

pub(crate) static SECRET: KindRules = KindRules {
    defaults: defaults::core::secret,
    content: |object, _, errors| validate::config::secret(object, errors),
    change: validate::config::secret_change,
    warnings: |object, _, warnings| warning::other::secret(object, warnings),
    printer: table::cluster::SECRET,
    fields: SelectableFields::of(&[("type", FieldRule::At(&["type"]))]),
    ..KindRules::NONE
};

pub(crate) static SERVICE: KindRules = KindRules {
    defaults: defaults::service::service,
    prepare_create: |object| {
        object["status"] = json!({"loadBalancer": {}});
        if object["spec"].is_object() {
            strategy::service::fill_cluster_ips(&mut object["spec"]);
        }
    },
    prepare_update: strategy::service::keep_allocated,
    create: |object, errors| validate::service::content(object, None, errors),
    change: |new, old, errors| {
        validate::service::change(new, old, errors);
        validate::service::content(new, Some(old), errors);
    },
    warnings: |object, _, warnings| warning::service::service(object, warnings),
    subresources: &[SubresourceRules::STATUS.checked(validate::service::status)],
    printer: table::service::SERVICE,
    fields: SelectableFields::of(&[
        ("spec.clusterIP", FieldRule::At(&["spec", "clusterIP"])),
        ("spec.type", FieldRule::At(&["spec", "type"])),
    ]),
    ..KindRules::NONE
};

pub(crate) static SERVICE_ACCOUNT: KindRules = KindRules {
    prepare_create: strategy::account_secrets,
    prepare_update: |new, _| strategy::account_secrets(new),
    warnings: warning::other::account,
    printer: table::cluster::SERVICE_ACCOUNT,
    former_printers: &[(Minor::V34, table::cluster::SERVICE_ACCOUNT_WITH_SECRETS)],
    ..KindRules::NONE
};

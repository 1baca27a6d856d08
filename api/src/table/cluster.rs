//! Table columns of small kinds: namespaces, config maps, secrets, service accounts, quotas, leases, priority
//! and runtime classes, certificate signing requests, trust bundles.

use super::text::{NONE, count, int, join_or, labels, length, list, of, or};
use super::{AGE, NAME, Printer, age, flag, human_duration, name, number, printer, text};
use serde_json::Value;

pub(crate) const NAMESPACE: Printer =
    printer(&[NAME, text("Status", "Phase of the namespace."), AGE], |namespace, now| {
        vec![name(namespace), of(&namespace["status"]["phase"]).into(), age(namespace, now)]
    });

pub(crate) const CONFIG_MAP: Printer =
    printer(&[NAME, text("Data", "Number of entries."), AGE], |map, now| {
        let entries =
            [&map["data"], &map["binaryData"]].map(|data| length(data).as_u64().unwrap_or_default());
        vec![name(map), entries.iter().sum::<u64>().into(), age(map, now)]
    });

pub(crate) const SECRET: Printer = printer(
    &[NAME, text("Type", "Type of the secret."), text("Data", "Number of entries."), AGE],
    |secret, now| vec![name(secret), of(&secret["type"]).into(), length(&secret["data"]), age(secret, now)],
);

pub(crate) const SERVICE_ACCOUNT: Printer =
    printer(&[NAME, AGE], |account, now| vec![name(account), age(account, now)]);

/// Until 1.34.
pub(crate) const SERVICE_ACCOUNT_WITH_SECRETS: Printer =
    printer(&[NAME, text("Secrets", "Number of secrets that the account lists."), AGE], |account, now| {
        vec![name(account), list(&account["secrets"]).len().into(), age(account, now)]
    });

pub(crate) const RESOURCE_QUOTA: Printer = printer(
    &[
        NAME,
        text("Request", "Used and allowed amounts, except limits."),
        text("Limit", "Used and allowed amounts of limits."),
        AGE,
    ],
    |quota, now| {
        let status = &quota["status"];
        let side = |limits: bool| {
            let hard = status["hard"].as_object().into_iter().flatten();
            let texts = hard.filter(|(resource, _)| resource.starts_with("limits.") == limits).map(
                |(resource, hard)| format!("{resource}: {}/{}", or(&status["used"][resource], "0"), of(hard)),
            );
            join_or(texts, ", ", "")
        };
        vec![name(quota), side(false).into(), side(true).into(), age(quota, now)]
    },
);

pub(crate) const COMPONENT_STATUS: Printer = printer(
    &[
        NAME,
        text("Status", "Health of the component."),
        text("Message", "Message of the component."),
        text("Error", "Error of the component."),
    ],
    |component, _| {
        let healthy = list(&component["conditions"]).iter().find(|c| c["type"] == "Healthy");
        let (status, message, error) = match healthy {
            Some(c) if c["status"] == "True" => ("Healthy", of(&c["message"]), of(&c["error"])),
            Some(c) => ("Unhealthy", of(&c["message"]), of(&c["error"])),
            None => ("Unknown", "", ""),
        };
        vec![name(component), status.into(), message.into(), error.into()]
    },
);

pub(crate) const LEASE: Printer =
    printer(&[NAME, text("Holder", "Identity of the holder."), AGE], |lease, now| {
        vec![name(lease), of(&lease["spec"]["holderIdentity"]).into(), age(lease, now)]
    });

pub(crate) const PRIORITY_CLASS: Printer = printer(
    &[
        NAME,
        number("Value", "Priority of the pods."),
        flag("Global-Default", "Whether pods without a priority class get this one."),
        AGE,
        text("PreemptionPolicy", "Whether pods can preempt pods of lower priority."),
    ],
    |class, now| {
        vec![
            name(class),
            count(&class["value"]),
            (class["globalDefault"] == true).into(),
            age(class, now),
            of(&class["preemptionPolicy"]).into(),
        ]
    },
);

pub(crate) const RUNTIME_CLASS: Printer =
    printer(&[NAME, text("Handler", "Handler of the container runtime."), AGE], |class, now| {
        vec![name(class), of(&class["handler"]).into(), age(class, now)]
    });

pub(crate) const CERTIFICATE_REQUEST: Printer = printer(
    &[
        NAME,
        AGE,
        text("SignerName", "Name of the signer."),
        text("Requestor", "User of the request."),
        text("RequestedDuration", "Requested lifetime of the certificate."),
        text("Condition", "Latest condition of the request."),
    ],
    |request, now| {
        let spec = &request["spec"];
        let duration = match int(&spec["expirationSeconds"]) {
            0 => NONE.to_owned(),
            seconds => human_duration(seconds),
        };
        vec![
            name(request),
            age(request, now),
            or(&spec["signerName"], NONE).into(),
            of(&spec["username"]).into(),
            duration.into(),
            certificate_condition(request).into(),
        ]
    },
);

/// The condition that ended a pod certificate request.
fn answer_of_signer(request: &Value) -> Option<&str> {
    let conditions = list(&request["status"]["conditions"]).iter();
    let mut answers = conditions.filter(|one| one["status"] == "True").map(|one| of(&one["type"]));
    answers.find(|kind| ["Issued", "Denied", "Failed"].contains(kind))
}

fn certificate_condition(request: &Value) -> String {
    let has = |kind: &str| list(&request["status"]["conditions"]).iter().any(|c| c["type"] == kind);
    let mut word = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied".to_owned(),
        (false, true) => "Approved".to_owned(),
        (false, false) => "Pending".to_owned(),
    };
    if has("Failed") {
        word.push_str(",Failed");
    }
    if !of(&request["status"]["certificate"]).is_empty() {
        word.push_str(",Issued");
    }
    word
}

pub(crate) const POD_CERTIFICATE_REQUEST: Printer = printer(
    &[
        NAME,
        text("PodName", "Pod that the certificate is for."),
        text("ServiceAccountName", "Service account of the pod."),
        text("NodeName", "Node of the pod."),
        text("SignerName", "Name of the signer."),
        text("State", "Answer of the signer."),
        text("UnverifiedUserAnnotations", "Annotations of the volume, for the signer."),
    ],
    |request, _| {
        let spec = &request["spec"];
        let annotations = &spec["unverifiedUserAnnotations"];
        vec![
            name(request),
            of(&spec["podName"]).into(),
            of(&spec["serviceAccountName"]).into(),
            of(&spec["nodeName"]).into(),
            of(&spec["signerName"]).into(),
            answer_of_signer(request).unwrap_or("Pending").into(),
            labels(annotations).into(),
        ]
    },
);

pub(crate) const TRUST_BUNDLE: Printer =
    printer(&[NAME, text("SignerName", "Signer whose trust anchors these are.")], |bundle, _| {
        vec![name(bundle), or(&bundle["spec"]["signerName"], NONE).into()]
    });

pub(crate) const STORAGE_VERSION_MIGRATION: Printer = printer(
    &[
        text("Name", "Name of the migration."),
        text("Resource", "Resource whose objects are written again."),
        text("Status", "State of the migration."),
    ],
    |migration, _| {
        let resource = &migration["spec"]["resource"];
        let resource = match (of(&resource["resource"]), of(&resource["group"])) {
            (plural, "") => plural.to_owned(),
            (plural, group) => format!("{plural}.{group}"),
        };
        let mut conditions = list(&migration["status"]["conditions"]).iter();
        let is_shown = |condition: &&Value| {
            condition["status"] == "True"
                && ["Running", "Failed", "Succeeded"].contains(&of(&condition["type"]))
        };
        let state = conditions.rfind(is_shown);
        vec![name(migration), resource.into(), state.map_or("Unknown", |state| of(&state["type"])).into()]
    },
);

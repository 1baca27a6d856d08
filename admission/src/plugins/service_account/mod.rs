//! ServiceAccount: every pod runs as an existing service account and gets its token volume and its pull
//! secrets. Tokens are issued when a kubelet requests them: see `token`.

mod secrets;
mod token_volume;

use super::row;
use crate::plugin::{Cluster, Enabled, Plugin, Review, Row};
use crate::subject::Subject;
use kstore_access::pod_references;
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_nondet::Rng;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

/// The account of pods that name none. A controller creates it in every namespace. Until then pods are
/// admitted as if it existed without any settings; Kubernetes instead waits a second for the account and then
/// refuses the pod.
const DEFAULT: &str = "default";
/// Annotation of mirror pods, which represent pods that a node runs by itself; they have no account.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods")],
    subresources: &["", "ephemeralcontainers"],
    mutates: &[Operation::Create],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("ServiceAccount", || Arc::new(ServiceAccount))
};

struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn mutate(&self, review: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        if !subject.subresource.is_empty() || !pod["spec"].is_object() {
            return Ok(());
        }
        if meta::annotation(pod, MIRROR).is_some() {
            return Ok(check_mirror(subject, &pod["spec"])?);
        }
        let spec = &mut pod["spec"];
        let name = match account_name(spec) {
            "" => DEFAULT.to_owned(),
            name => name.to_owned(),
        };
        let account = account(cluster, subject, &name)?;
        spec["serviceAccountName"] = json!(name);
        spec["serviceAccount"] = json!(name);
        let account = account.as_deref().unwrap_or(&Value::Null);
        if token_volume::is_wanted(account, spec) {
            token_volume::mount(spec, || Rng::seeded(subject.seed).name_suffix(5));
        }
        copy_pull_secrets(account, spec);
        Ok(check(subject, account, &name, spec)?)
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let is_ephemeral = is_about_ephemeral_containers(subject);
        let is_new = subject.operation == Operation::Create && subject.subresource.is_empty();
        let Some(pod) = new.filter(|pod| (is_new || is_ephemeral) && pod["spec"].is_object()) else {
            return Ok(());
        };
        let spec = &pod["spec"];
        if is_new && meta::annotation(pod, MIRROR).is_some() {
            return Ok(check_mirror(subject, spec)?);
        }
        let name = account_name(spec);
        if name.is_empty() {
            let text = format!("no service account specified for pod {}/{}", subject.namespace, subject.name);
            return subject.refuse(&text);
        }
        let account = account(cluster, subject, name)?;
        Ok(check(subject, account.as_deref().unwrap_or(&Value::Null), name, spec)?)
    }
}

fn is_about_ephemeral_containers(subject: &Subject<'_>) -> bool {
    subject.operation == Operation::Update && subject.subresource == "ephemeralcontainers"
}

/// The account that a pod's `spec` names, including by the deprecated field; "" if it names none.
fn account_name(spec: &Value) -> &str {
    let named =
        ["serviceAccountName", "serviceAccount"].map(|field| spec[field].as_str().unwrap_or_default());
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

/// The account with this name; `None` if it is the default account and does not exist yet.
///
/// # Errors
/// 403 if another account does not exist.
fn account(cluster: &dyn Cluster, subject: &Subject<'_>, name: &str) -> Result<Option<Arc<Value>>, Status> {
    let account = cluster.get(row("", "v1", "serviceaccounts"), subject.namespace, name);
    if account.is_none() && name != DEFAULT {
        let namespace = subject.namespace;
        let text =
            format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
        return Err(subject.forbidden(&text));
    }
    Ok(account)
}

/// Checks the Secrets that a pod refers to, if its account limits pods to the Secrets that it lists.
fn check(subject: &Subject<'_>, account: &Value, name: &str, spec: &Value) -> Result<(), Status> {
    if !secrets::are_limited(account) {
        return Ok(());
    }
    let refused = match is_about_ephemeral_containers(subject) {
        true => secrets::refused_of_ephemeral(account, name, spec),
        false => secrets::refused(account, name, spec),
    };
    refused.map_or(Ok(()), |text| Err(subject.forbidden(&text)))
}

/// Checks a mirror pod, which may use neither an account nor secrets, since the API did not create it.
fn check_mirror(subject: &Subject<'_>, spec: &Value) -> Result<(), Status> {
    let projects = |member: &str| pod_references::projections(spec).any(|source| source[member].is_object());
    let why = if !account_name(spec).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if pod_references::secrets(spec).next().is_some() {
        "a mirror pod may not reference secrets"
    } else if projects("serviceAccountToken") {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else if projects("clusterTrustBundle") {
        "a mirror pod may not use ClusterTrustBundle volume projections"
    } else if projects("podCertificate") {
        "a mirror pod may not use PodCertificate volume projections"
    } else {
        return Ok(());
    };
    Err(subject.forbidden(why))
}

/// Copies the account's pull secrets to a pod that has none.
fn copy_pull_secrets(account: &Value, spec: &mut Value) {
    let has = |value: &Value| value["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty());
    if has(account) && !has(spec) {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
}

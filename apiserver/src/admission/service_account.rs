//! Every pod runs as a service account. Not done here: mounting its token, which nothing in a simulated container reads. Tokens are
//! issued on request: see `token`.

use super::{Operation, Plugin, Subject, row};
use crate::lookup::Lookup;
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::{Value, json};

/// The account of pods that name none. A controller makes it in every namespace; pods need not wait for that, since
/// nothing of it is mounted.
const DEFAULT: &str = "default";
/// Marks the image of a pod that a node runs by itself; such pods have no account.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) struct ServiceAccount;

impl Plugin for ServiceAccount {
    fn mutate(
        &self,
        cluster: &dyn Lookup,
        subject: &Subject<'_>,
        pod: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if !subject.is("", "pods")
            || subject.operation != Operation::Create
            || meta::annotation(pod, MIRROR).is_some()
        {
            return Ok(());
        }
        if !pod["spec"].is_object() {
            return Ok(());
        }
        let named = ["serviceAccountName", "serviceAccount"]
            .map(|field| pod["spec"][field].as_str().unwrap_or_default());
        let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or(DEFAULT).to_owned();
        let account = cluster.get(row("", "v1", "serviceaccounts"), subject.namespace, &name);
        pod["spec"]["serviceAccountName"] = json!(name);
        pod["spec"]["serviceAccount"] = json!(name);
        match account {
            Some(account) => copy_pull_secrets(&account, &mut pod["spec"]),
            None if name == DEFAULT => {}
            None => {
                let namespace = subject.namespace;
                let text = format!(
                    "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
                );
                return Err(subject.forbidden(&text));
            }
        }
        Ok(())
    }
}

/// A pod without pull secrets of its own uses the account's.
fn copy_pull_secrets(account: &Value, spec: &mut Value) {
    let has = |value: &Value| value["imagePullSecrets"].as_array().is_some_and(|list| !list.is_empty());
    if has(account) && !has(spec) {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
}

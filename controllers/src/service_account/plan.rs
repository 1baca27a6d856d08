//! What every namespace must have: the ServiceAccount `default`, and the cluster's root certificate in a ConfigMap. Pure.

use crate::action::{Action, Object};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// The account that pods get that name none.
pub(crate) const DEFAULT: &str = "default";
/// Where pods find the certificate to check the API server with.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
const CA_FILE: &str = "ca.crt";

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed<'a> {
    /// The namespace.
    pub namespace: &'a Namespace,
    /// It has its default account.
    pub has_account: bool,
    /// Its ConfigMap of that name.
    pub root_ca: Option<&'a ConfigMap>,
    /// The certificate, as PEM. Empty: there is none to publish.
    pub ca: &'a str,
}

/// The missing objects, and the certificate if it is another one.
pub(crate) fn plan(seen: Observed<'_>) -> Vec<Action> {
    let active = seen.namespace.status.as_ref().and_then(|s| s.phase.as_deref()) != Some("Terminating");
    if !active || seen.namespace.metadata.deletion_timestamp.is_some() {
        return vec![];
    }
    let mut actions = vec![];
    if !seen.has_account {
        let account = ServiceAccount { metadata: meta(seen.namespace, DEFAULT), ..ServiceAccount::default() };
        actions.push(Action::Create(Object::ServiceAccount(Box::new(account))));
    }
    if !seen.ca.is_empty() {
        actions.extend(publish(seen));
    }
    actions
}

fn publish(seen: Observed<'_>) -> Option<Action> {
    let data = BTreeMap::from([(CA_FILE.to_owned(), seen.ca.to_owned())]);
    let Some(map) = seen.root_ca else {
        let mut metadata = meta(seen.namespace, ROOT_CA);
        let why = "The certificate authority with which a pod checks the API server.";
        metadata.annotations =
            Some(BTreeMap::from([("kubernetes.io/description".to_owned(), why.to_owned())]));
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        return Some(Action::Create(Object::ConfigMap(Box::new(map))));
    };
    if map.data.as_ref() == Some(&data) {
        return None;
    }
    Some(Action::Update(Object::ConfigMap(Box::new(ConfigMap { data: Some(data), ..map.clone() }))))
}

fn meta(namespace: &Namespace, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: namespace.metadata.name.clone(),
        ..ObjectMeta::default()
    }
}

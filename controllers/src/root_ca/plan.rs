//! The ConfigMap with the root certificate that every namespace needs. Pure.

use crate::action::Action;
use crate::namespace::is_active;
use crate::object::Object;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// Name of the ConfigMap in which pods find the CA of the API server.
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";
const CA_FILE: &str = "ca.crt";

/// Creates or updates the ConfigMap if needed. `ca` is the certificate (PEM); empty means none.
pub(crate) fn plan(namespace: &Namespace, published: Option<&ConfigMap>, ca: &str) -> Option<Action> {
    if ca.is_empty() || !is_active(namespace) {
        return None;
    }
    let data = BTreeMap::from([(CA_FILE.to_owned(), ca.to_owned())]);
    let Some(map) = published else {
        let why = "The certificate authority with which a pod checks the API server.";
        let metadata = ObjectMeta {
            name: Some(ROOT_CA.into()),
            namespace: namespace.metadata.name.clone(),
            annotations: Some(BTreeMap::from([("kubernetes.io/description".to_owned(), why.to_owned())])),
            ..ObjectMeta::default()
        };
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        return Some(Action::Create(Object::of(&map)));
    };
    if map.data.as_ref() == Some(&data) {
        return None;
    }
    Some(Action::Update(Object::of(&ConfigMap { data: Some(data), ..map.clone() })))
}

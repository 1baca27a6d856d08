//! DefaultIngressClass: an Ingress without a class gets the default one: the newest, or the first by name
//! among equally new ones.

use super::{Operation, Plugin, Subject, row};
use crate::admission::Cluster;
use kstore_api::meta;
use kstore_api::status::Status;
use serde_json::{Value, json};
use std::cmp::Reverse;

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The deprecated annotation that names a class.
const OLD_NAME: &str = "kubernetes.io/ingress.class";

pub(super) struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn mutate(
        &self,
        cluster: &dyn Cluster,
        subject: &Subject<'_>,
        ingress: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if subject.operation != Operation::Create
            || !subject.subresource.is_empty()
            || !ingress["spec"].is_object()
            || ingress["spec"]["ingressClassName"].is_string()
            || meta::annotation(ingress, OLD_NAME).is_some()
        {
            return Ok(());
        }
        let classes = cluster.list(row("networking.k8s.io", "v1", "ingressclasses"), "");
        let defaults = classes.iter().filter(|class| meta::annotation(class, DEFAULT) == Some("true"));
        // The list is in name order, and the first of equals is taken.
        if let Some(class) = defaults.min_by_key(|class| Reverse(meta::creation_timestamp(class))) {
            ingress["spec"]["ingressClassName"] = json!(meta::name(class));
        }
        Ok(())
    }
}

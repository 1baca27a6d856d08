//! DefaultIngressClass: an Ingress without a class gets the default one: the newest, or the first by name
//! among equally new ones.

use super::row;
use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::sync::Arc;

const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The deprecated annotation that names a class.
const OLD_NAME: &str = "kubernetes.io/ingress.class";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("networking.k8s.io", "ingresses")],
    mutates: &[Operation::Create],
    ..Row::new("DefaultIngressClass", || Arc::new(DefaultIngressClass))
};

struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn mutate(&self, review: &Review<'_>, ingress: &mut Value) -> Result<(), Undecided> {
        if !ingress["spec"].is_object()
            || ingress["spec"]["ingressClassName"].is_string()
            || meta::annotation(ingress, OLD_NAME).is_some()
        {
            return Ok(());
        }
        let classes = review.cluster.list(row("networking.k8s.io", "v1", "ingressclasses"), "");
        let defaults = classes.iter().filter(|class| meta::annotation(class, DEFAULT) == Some("true"));
        // The list is in name order, and the first of equals is taken.
        if let Some(class) = defaults.min_by_key(|class| Reverse(meta::creation_timestamp(class))) {
            ingress["spec"]["ingressClassName"] = json!(meta::name(class));
        }
        Ok(())
    }
}

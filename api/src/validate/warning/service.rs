//! Warnings for services.
//!
//! Follows `GetWarningsForService`.

use super::address;
use crate::field::Path;
use crate::meta;
use crate::object::{list, text};
use crate::resource::Warnings;
use serde_json::Value;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";

pub(crate) fn service(object: &Value, warnings: &mut Warnings) {
    let (spec, at) = (&object["spec"], Path::new("spec"));
    let mut say = |text: &str| warnings.push(text.to_owned());
    if meta::annotation(object, HINTS).is_some() {
        say(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
        );
    }
    let headless = spec["type"] == "ClusterIP" && spec["clusterIP"] == "None";
    let (named, external) = (spec["type"] == "ExternalName", !list(&spec["externalIPs"]).is_empty());
    if headless && !text(&spec["loadBalancerIP"]).is_empty() {
        say("spec.loadBalancerIP is ignored for headless services");
    }
    if headless && external {
        say("spec.externalIPs is ignored for headless services");
    }
    if headless && spec["sessionAffinity"] != "None" {
        say("spec.SessionAffinity is ignored for headless services");
    }
    if external && !headless && !named {
        say("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if named && external {
        say("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if !named && !text(&spec["externalName"]).is_empty() {
        say("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if spec["trafficDistribution"] == "PreferClose" {
        say("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
    for member in ["clusterIPs", "externalIPs"] {
        let path = at.child(member);
        for (i, ip) in list(&spec[member]).iter().enumerate() {
            address(&path.index(i), text(ip), warnings);
        }
    }
    address(&at.child("loadBalancerIP"), text(&spec["loadBalancerIP"]), warnings);
}

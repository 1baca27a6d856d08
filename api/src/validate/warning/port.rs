//! Ports of a pod's containers, which share one network.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::field::Path;
use crate::object::{int, list, text};

/// A port that was seen, and where.
struct Seen<'p> {
    at: String,
    host: i64,
    ip: &'p str,
}

pub(super) fn across(path: &Path<'_>, spec: &Value, warnings: &mut Vec<String>) {
    let mut numbers: BTreeMap<(i64, &str), Vec<Seen<'_>>> = BTreeMap::new();
    each(path, spec, |at, port| {
        let (own, protocol) = (int(&port["containerPort"]), text(&port["protocol"]));
        let (host, ip) = (int(&port["hostPort"]), text(&port["hostIP"]));
        if !ip.is_empty() && host == 0 {
            let name = text(&port["name"]);
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{own} Protocol:{protocol} HostIP:{ip}}}"
            ));
        }
        let others = numbers.entry((own, protocol)).or_default();
        for other in others.iter() {
            let said = if ip == other.ip && host == other.host {
                "duplicate"
            } else if host == 0 || other.host == 0 {
                "overlapping"
            } else if host == other.host && ip.is_empty() != other.ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{at}: {said} port definition with {}", other.at));
        }
        others.push(Seen { at, host, ip });
    });
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    each(path, spec, |at, port| {
        let own = text(&port["name"]);
        if let Some(other) = names.get(own).filter(|_| !own.is_empty()) {
            warnings.push(format!(
                "{at}: duplicate port name {own:?} with {other}, services and probes that select ports by name will use {other}"
            ));
        } else {
            names.insert(own, at);
        }
    });
}

fn each<'s>(path: &Path<'_>, spec: &'s Value, mut each: impl FnMut(String, &'s Value)) {
    for member in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.child(member);
        for (i, container) in list(&spec[member]).iter().enumerate() {
            let path = path.index(i);
            let path = path.child("ports");
            for (n, port) in list(&container["ports"]).iter().enumerate() {
                each(path.index(n).to_string(), port);
            }
        }
    }
}

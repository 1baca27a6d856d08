//! Warnings about ports of a pod's containers, which share one network namespace.
//!
//! Follows `warningsForPodSpecAndMeta`.

use crate::field::Path;
use crate::limits::WARNINGS_MAX;
use crate::object::{int, list, text};
use crate::resource::Warnings;
use serde_json::Value;
use std::collections::BTreeMap;

/// Container port seen before, with its path.
struct SeenPort<'p> {
    at: String,
    host: i64,
    ip: &'p str,
}

/// Ports of one number and protocol, in order, indexed by host port. Each returned port costs a warning, so
/// [`WARNINGS_MAX`] bounds every search.
#[derive(Default)]
struct PortsOfOneNumber<'p> {
    all: Vec<SeenPort<'p>>,
    /// Positions of ports without a host port.
    open: Vec<usize>,
    /// Positions by host port and host address.
    claimed: BTreeMap<(i64, &'p str), Vec<usize>>,
}

impl<'p> PortsOfOneNumber<'p> {
    fn insert(&mut self, seen: SeenPort<'p>) {
        let at = self.all.len();
        if seen.host == 0 {
            self.open.push(at);
        }
        self.claimed.entry((seen.host, seen.ip)).or_default().push(at);
        self.all.push(seen);
    }

    /// Earlier ports, in order, that duplicate this one, overlap with it, or may mean the same host address.
    fn conflicting(&self, host: i64, ip: &str) -> Vec<&SeenPort<'p>> {
        if host == 0 {
            return self.all.iter().take(WARNINGS_MAX).collect();
        }
        let (first, last) = if ip.is_empty() { (ip, None) } else { ("", Some(ip)) };
        let mut found: Vec<usize> = self.open.iter().copied().take(WARNINGS_MAX).collect();
        if let Some(last) = last {
            for ip in [first, last] {
                found.extend(self.claimed.get(&(host, ip)).into_iter().flatten().take(WARNINGS_MAX));
            }
        } else {
            let same_host = self.claimed.range((host, "")..).take_while(|((other, _), _)| *other == host);
            found.extend(same_host.flat_map(|(_, paths)| paths).take(WARNINGS_MAX));
        }
        found.sort_unstable();
        found.into_iter().map(|at| &self.all[at]).collect()
    }
}

pub(super) fn across(path: &Path<'_>, spec: &Value, warnings: &mut Warnings) {
    let mut numbers: BTreeMap<(i64, &str), PortsOfOneNumber<'_>> = BTreeMap::new();
    each(path, spec, |at, port| {
        let (own, protocol) = (int(&port["containerPort"]), text(&port["protocol"]));
        let (host, ip) = (int(&port["hostPort"]), text(&port["hostIP"]));
        if !ip.is_empty() && host == 0 {
            let name = text(&port["name"]);
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{own} Protocol:{protocol} HostIP:{ip}}}"
            ));
        }
        if warnings.is_full() {
            return;
        }
        let others = numbers.entry((own, protocol)).or_default();
        for other in others.conflicting(host, ip) {
            let said = if ip == other.ip && host == other.host {
                "duplicate"
            } else if host == 0 || other.host == 0 {
                "overlapping"
            } else {
                "dangerously ambiguous"
            };
            warnings.push(format!("{at}: {said} port definition with {}", other.at));
        }
        others.insert(SeenPort { at, host, ip });
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

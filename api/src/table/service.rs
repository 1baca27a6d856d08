//! Table columns of services.
//!
//! Follows `printService`.

use super::text::{NONE, UNKNOWN, int, join_or, labels, list, of, or};
use super::{AGE, NAME, Printer, SELECTOR, age, name, printer, text};
use serde_json::Value;
use std::collections::BTreeSet;

pub(crate) const SERVICE: Printer = printer(
    &[
        NAME,
        text("Type", "Type of the service."),
        text("Cluster-IP", "Address inside the cluster."),
        text("External-IP", "Addresses outside the cluster."),
        text("Port(s)", "Ports, with their node ports."),
        AGE,
        SELECTOR,
    ],
    |service, now| {
        let spec = &service["spec"];
        let address = list(&spec["clusterIPs"]).first().unwrap_or(&spec["clusterIP"]);
        let ports = list(&spec["ports"]).iter().map(port);
        vec![
            name(service),
            of(&spec["type"]).into(),
            or(address, NONE).into(),
            external(service).into(),
            join_or(ports, ",", NONE).into(),
            age(service, now),
            labels(&spec["selector"]).into(),
        ]
    },
);

fn port(port: &Value) -> String {
    let node = match int(&port["nodePort"]) {
        0 => String::new(),
        node => format!(":{node}"),
    };
    format!("{}{node}/{}", int(&port["port"]), of(&port["protocol"]))
}

fn external(service: &Value) -> String {
    let spec = &service["spec"];
    let given = list(&spec["externalIPs"]).iter().map(of);
    match of(&spec["type"]) {
        "ExternalName" => of(&spec["externalName"]).to_owned(),
        "LoadBalancer" => {
            let got = balancer(&service["status"]["loadBalancer"]);
            join_or(got.into_iter().chain(given), ",", "<pending>")
        }
        "ClusterIP" | "NodePort" => join_or(given, ",", NONE),
        _ => UNKNOWN.to_owned(),
    }
}

/// Addresses and host names of a load balancer, sorted, without duplicates.
pub(super) fn balancer(status: &Value) -> BTreeSet<&str> {
    list(&status["ingress"])
        .iter()
        .map(|i| or(&i["ip"], of(&i["hostname"])))
        .filter(|a| !a.is_empty())
        .collect()
}

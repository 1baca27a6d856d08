//! Table columns of endpoints, ingresses, network policies and IP addresses.

use super::service::balancer;
use super::text::{NONE, UNSET, first_of, int, join_or, list, of, or, selector};
use super::{AGE, NAME, Printer, age, marked, name, printer, text};
use serde_json::Value;

/// List items shown; the rest is counted.
const SHOWN: usize = 3;

pub(crate) const ENDPOINTS: Printer =
    printer(&[NAME, text("Endpoints", "Addresses and ports."), AGE], |object, now| {
        vec![name(object), endpoints(object).into(), age(object, now)]
    });

fn endpoints(object: &Value) -> String {
    if list(&object["subsets"]).is_empty() {
        return NONE.to_owned();
    }
    // Only the endpoints in the cell are formatted. The rest, up to addresses times ports, is only counted.
    let (mut shown, mut count) = (Vec::new(), 0_usize);
    for subset in list(&object["subsets"]) {
        let (addresses, ports) = (list(&subset["addresses"]), list(&subset["ports"]));
        count = count.saturating_add(addresses.len().saturating_mul(ports.len().max(1)));
        let ips = addresses.iter().map(|address| of(&address["ip"])).take(SHOWN - shown.len());
        if ports.is_empty() {
            shown.extend(ips.clone().map(str::to_owned));
        }
        for port in ports {
            let left = SHOWN - shown.len();
            shown.extend(ips.clone().take(left).map(|ip| host_port(ip, int(&port["port"]))));
        }
    }
    let more = count - shown.len();
    let shown = join_or(shown, ",", "");
    if more == 0 { shown } else { format!("{shown} + {more} more...") }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

pub(crate) const ENDPOINT_SLICE: Printer = printer(
    &[
        NAME,
        text("AddressType", "Family of the addresses."),
        text("Ports", "Ports of every endpoint."),
        text("Endpoints", "Addresses."),
        AGE,
    ],
    |slice, now| {
        let port = |port: &Value| match port["port"].as_i64() {
            Some(number) => number.to_string(),
            None => port["name"].as_str().unwrap_or("*").to_owned(),
        };
        let ports: Vec<String> = list(&slice["ports"]).iter().map(port).collect();
        let addresses = list(&slice["endpoints"]).iter().flat_map(|e| list(&e["addresses"]));
        let addresses: Vec<String> = addresses.map(|address| of(address).to_owned()).collect();
        vec![
            name(slice),
            of(&slice["addressType"]).into(),
            first_of(&ports, SHOWN, ",", UNSET).into(),
            first_of(&addresses, SHOWN, ",", UNSET).into(),
            age(slice, now),
        ]
    },
);

pub(crate) const INGRESS: Printer = printer(
    &[
        NAME,
        text("Class", "Ingress class that serves it."),
        text("Hosts", "Hosts of the rules."),
        text("Address", "Addresses of the load balancer."),
        text("Ports", "Ports of the ingress."),
        AGE,
    ],
    |ingress, now| {
        let spec = &ingress["spec"];
        let ports = if list(&spec["tls"]).is_empty() { "80" } else { "80, 443" };
        vec![
            name(ingress),
            or(&spec["ingressClassName"], NONE).into(),
            hosts(list(&spec["rules"])).into(),
            join_or(balancer(&ingress["status"]["loadBalancer"]), ",", "").into(),
            ports.into(),
            age(ingress, now),
        ]
    },
);

/// Hosts of the first rules; the remaining rules are counted, with or without hosts.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    for rule in rules {
        if shown.len() == SHOWN {
            return format!("{} + {} more...", shown.join(","), rules.len() - SHOWN);
        }
        shown.extend(Some(of(&rule["host"])).filter(|host| !host.is_empty()));
    }
    join_or(shown, ",", "*")
}

pub(crate) const INGRESS_CLASS: Printer = printer(
    &[
        NAME,
        text("Controller", "Controller that serves the class."),
        text("Parameters", "Object with the parameters of the class."),
        AGE,
    ],
    |class, now| {
        let spec = &class["spec"];
        vec![
            marked(class, &["ingressclass.kubernetes.io/is-default-class"]),
            of(&spec["controller"]).into(),
            reference(&spec["parameters"]).into(),
            age(class, now),
        ]
    },
);

/// Until 1.35 the default class has no mark.
pub(crate) const UNMARKED_INGRESS_CLASS: Printer = printer(INGRESS_CLASS.columns, |class, now| {
    let mut cells = (INGRESS_CLASS.cells)(class, now);
    cells[0] = name(class);
    cells
});

fn reference(parameters: &Value) -> String {
    if parameters.is_null() {
        return NONE.to_owned();
    }
    let group = of(&parameters["apiGroup"]);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{}", of(&parameters["kind"]), of(&parameters["name"]))
}

pub(crate) const NETWORK_POLICY: Printer =
    printer(&[NAME, text("Pod-Selector", "Selector of the pods."), AGE], |policy, now| {
        vec![name(policy), selector(&policy["spec"]["podSelector"]).into(), age(policy, now)]
    });

pub(crate) const IP_ADDRESS: Printer =
    printer(&[NAME, text("ParentRef", "Object that holds the address.")], |address, _| {
        let parent = &address["spec"]["parentRef"];
        let parts = [&parent["resource"], &parent["namespace"], &parent["name"]].map(of);
        let resource = match of(&parent["group"]) {
            "" => parts[0].to_owned(),
            group => format!("{}.{group}", parts[0]),
        };
        let parts = [resource.as_str(), parts[1], parts[2]];
        let text = join_or(parts.into_iter().filter(|part| !part.is_empty()), "/", NONE);
        vec![name(address), text.into()]
    });

pub(crate) const SERVICE_CIDR: Printer =
    printer(&[NAME, text("CIDRs", "Address blocks."), AGE], |object, now| {
        let blocks = join_or(list(&object["spec"]["cidrs"]).iter().map(of), ",", "");
        vec![name(object), blocks.into(), age(object, now)]
    });

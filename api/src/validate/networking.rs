//! What must hold of endpoints.

use serde_json::Value;

use super::check::{each, grammar, one_of, port_number};
use crate::field::{ErrorList, Path};
use crate::name;
use crate::object::{list, text};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn endpoints(object: &Value, errors: &mut ErrorList) {
    each(&Path::ROOT, object, "subsets", |path, subset| {
        if list(&subset["addresses"]).is_empty() && list(&subset["notReadyAddresses"]).is_empty() {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for member in ["addresses", "notReadyAddresses"] {
            each(path, subset, member, |path, address| {
                let ip = text(&address["ip"]);
                grammar(errors, &path.child("ip"), ip, name::ip(ip));
            });
        }
        let ports = list(&subset["ports"]);
        each(path, subset, "ports", |path, value| {
            let own = text(&value["name"]);
            if own.is_empty() {
                if ports.len() > 1 {
                    errors.required(&path.child("name"), "");
                }
            } else {
                grammar(errors, &path.child("name"), own, name::dns1123_label(own));
            }
            port_number(errors, &path.child("port"), &value["port"]);
            one_of(errors, &path.child("protocol"), &value["protocol"], &PROTOCOLS);
        });
    });
}

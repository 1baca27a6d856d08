//! The items of `extenders` in a KubeSchedulerConfiguration: [`read`] and [`print()`].

use super::{Extender, ExtenderTls, ManagedResource};
use crate::fields::Fields;
use crate::limits::EXTENDERS;
use kstore_api::name::qualified_name;
use serde_json::{Value, json};
use std::time::Duration;

/// The time for a call by default, in nanoseconds.
const DEFAULT_TIMEOUT: i64 = 5_000_000_000;

/// Reads and checks the member `extenders` of the file.
pub(crate) fn read(file: &mut Fields<'_>) -> Vec<Extender> {
    const LIST: &str = "extenders";
    let all = file.objects(LIST, extender).unwrap_or_default();
    if all.len() > EXTENDERS {
        file.invalid(LIST, &all.len(), format!("must have at most {EXTENDERS} items"));
    }
    let binders = all.iter().filter(|one| !one.bind_verb.is_empty()).count();
    let mut known: Vec<&str> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        for (at, ManagedResource { name, .. }) in one.managed_resources.iter().enumerate() {
            let place = format!("{LIST}[{index}].managedResources[{at}].name");
            let mut faults = qualified_name(name);
            if faults.is_empty() && !is_extended(name) {
                faults.push("is an invalid extended resource name".to_owned());
            }
            faults.into_iter().for_each(|fault| file.invalid(&place, name, fault));
            if known.contains(&name.as_str()) {
                file.invalid(&place, name, "duplicate extender managed resource name");
            }
            known.push(name);
        }
    }
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        file.invalid(LIST, &found, "only one extender can implement bind");
    }
    all
}

/// Whether the resource is none of Kubernetes' own, and can be in a quota.
fn is_extended(name: &str) -> bool {
    name.contains('/')
        && !name.contains("kubernetes.io/")
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

fn extender(item: &mut Fields<'_>) -> Extender {
    let mut text = |name| item.text(name).unwrap_or_default();
    let url_prefix = text("urlPrefix");
    let [filter_verb, preempt_verb, prioritize_verb, bind_verb] =
        ["filterVerb", "preemptVerb", "prioritizeVerb", "bindVerb"].map(&mut text);
    let weight = item.integer("weight").unwrap_or_default();
    if !prioritize_verb.is_empty() && weight <= 0 {
        item.invalid("weight", &weight, "must have a positive weight applied to it");
    }
    let timeout = item.duration("httpTimeout").filter(|nanos| *nanos != 0).unwrap_or(DEFAULT_TIMEOUT);
    let managed = |resource: &mut Fields<'_>| ManagedResource {
        name: resource.text("name").unwrap_or_default(),
        is_ignored_by_scheduler: resource.boolean("ignoredByScheduler").unwrap_or_default(),
    };
    Extender {
        url_prefix,
        filter_verb,
        prioritize_verb,
        preempt_verb,
        bind_verb,
        weight,
        enable_https: item.boolean("enableHTTPS").unwrap_or_default(),
        tls: item.object("tlsConfig", tls),
        // Go's client knows no negative timeouts: such a call never ends. Here it ends at once.
        timeout: Duration::from_nanos(u64::try_from(timeout).unwrap_or_default()),
        node_cache_capable: item.boolean("nodeCacheCapable").unwrap_or_default(),
        managed_resources: item.objects("managedResources", managed).unwrap_or_default(),
        is_ignorable: item.boolean("ignorable").unwrap_or_default(),
    }
}

fn tls(config: &mut Fields<'_>) -> ExtenderTls {
    let insecure = config.boolean("insecure").unwrap_or_default();
    let mut text = |name| config.text(name).unwrap_or_default();
    let tls = ExtenderTls {
        insecure,
        server_name: text("serverName"),
        cert_file: text("certFile"),
        key_file: text("keyFile"),
        ca_file: text("caFile"),
        cert_data: text("certData"),
        key_data: text("keyData"),
        ca_data: text("caData"),
    };
    for (name, data) in [("certData", &tls.cert_data), ("keyData", &tls.key_data), ("caData", &tls.ca_data)] {
        if base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).is_err() {
            config.undecodable(name, "expected base64");
        }
    }
    tls
}

/// The item of `extenders` that reads as this extender.
pub(crate) fn print(extender: &Extender) -> Value {
    let Extender { url_prefix, weight, enable_https, timeout, node_cache_capable, is_ignorable, .. } =
        extender;
    let nanos = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
    let mut printed = json!({
        "urlPrefix": url_prefix, "weight": weight, "enableHTTPS": enable_https, "httpTimeout": kstore_go_duration::format(nanos),
        "nodeCacheCapable": node_cache_capable, "ignorable": is_ignorable,
    });
    for (name, verb) in [
        ("filterVerb", &extender.filter_verb),
        ("preemptVerb", &extender.preempt_verb),
        ("prioritizeVerb", &extender.prioritize_verb),
        ("bindVerb", &extender.bind_verb),
    ] {
        if !verb.is_empty() {
            printed[name] = verb.as_str().into();
        }
    }
    if let Some(tls) = &extender.tls {
        printed["tlsConfig"] = print_tls(tls);
    }
    let managed = extender.managed_resources.iter();
    let managed: Vec<Value> = managed
        .map(|one| json!({ "name": one.name, "ignoredByScheduler": one.is_ignored_by_scheduler }))
        .collect();
    if !managed.is_empty() {
        printed["managedResources"] = managed.into();
    }
    printed
}

fn print_tls(tls: &ExtenderTls) -> Value {
    let mut printed = json!({ "insecure": tls.insecure });
    for (name, text) in [
        ("serverName", &tls.server_name),
        ("certFile", &tls.cert_file),
        ("keyFile", &tls.key_file),
        ("caFile", &tls.ca_file),
        ("certData", &tls.cert_data),
        ("keyData", &tls.key_data),
        ("caData", &tls.ca_data),
    ] {
        if !text.is_empty() {
            printed[name] = text.as_str().into();
        }
    }
    printed
}

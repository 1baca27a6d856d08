//! A [`Configuration`] as a document that reads as the same configuration: every profile has its plugins by point, in order, and nothing
//! comes from `multiPoint`.

use super::settings::LeaderElection;
use super::{API_VERSION, Configuration, KIND};
use crate::extender;
use crate::plugin::ExtensionPoint;
use crate::profile::Profile;
use serde_json::{Map, Value, json};

/// The whole file.
pub(super) fn file(configuration: &Configuration) -> Value {
    let document = &configuration.document;
    let mut printed = json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": document.parallelism,
        "percentageOfNodesToScore": document.percentage.unwrap_or_default(),
        "podInitialBackoffSeconds": document.initial,
        "podMaxBackoffSeconds": document.longest,
        "profiles": configuration.profiles.iter().map(profile).collect::<Vec<_>>(),
    });
    if let Some(path) = &document.client_connection.kubeconfig {
        printed["clientConnection"] = json!({ "kubeconfig": path });
    }
    if !document.extenders.is_empty() {
        printed["extenders"] = document.extenders.iter().map(extender::print).collect();
    }
    let election = leader_election(&document.leader_election);
    if !election.is_empty() {
        printed["leaderElection"] = election.into();
    }
    printed
}

fn leader_election(election: &LeaderElection) -> Map<String, Value> {
    let LeaderElection { leader_elect, resource_lock, resource_namespace, resource_name, .. } = election;
    let duration = |nanos: Option<i64>| nanos.map(|nanos| kstore_go_duration::format(nanos).into());
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let members = [
        ("leaderElect", leader_elect.map(Value::from)),
        ("leaseDuration", duration(election.lease_duration)),
        ("renewDeadline", duration(election.renew_deadline)),
        ("resourceLock", text(resource_lock)),
        ("resourceName", text(resource_name)),
        ("resourceNamespace", text(resource_namespace)),
        ("retryPeriod", duration(election.retry_period)),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn profile(profile: &Profile) -> Value {
    let plugins = &profile.plugins;
    let mut points = Map::new();
    points.insert("multiPoint".to_owned(), json!({ "disabled": [{ "name": "*" }] }));
    for point in ExtensionPoint::ALL {
        let name = |id| plugins.row(id).name;
        let enabled: Vec<Value> = match point {
            ExtensionPoint::Score => {
                let scorers = plugins.line_up().scorers();
                scorers.map(|(id, weight)| json!({ "name": name(id), "weight": weight })).collect()
            }
            _ => plugins.line_up().at(point).iter().map(|id| json!({ "name": name(*id) })).collect(),
        };
        if !enabled.is_empty() {
            points.insert(point.member().to_owned(), json!({ "enabled": enabled }));
        }
    }
    let runs = |id| ExtensionPoint::ALL.iter().any(|point| plugins.line_up().runs(id, *point));
    let mut args: Vec<(&str, Value)> = plugins
        .rows()
        .filter_map(|row| plugins.id(row.name).filter(|id| runs(*id)))
        .filter_map(|id| Some((plugins.row(id).name, plugins.get(id).arguments()?)))
        .collect();
    args.sort_by_key(|(name, _)| *name);
    let args: Vec<Value> =
        args.into_iter().map(|(name, args)| json!({ "name": name, "args": args })).collect();
    json!({
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": points,
        "pluginConfig": args,
    })
}

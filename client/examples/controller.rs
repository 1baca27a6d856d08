//! A controller on kstore: each ConfigMap labelled `replicas=N` owns N ConfigMaps; the controller deletes the
//! surplus.
//!
//! `cargo run -p kstore-client --example controller -- kstore-data/admin.kubeconfig`, then for instance
//! `kubectl create configmap web && kubectl label configmap web replicas=3`.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kstore_client::{ApiError, Client, DeleteParams, Kubeconfig, Obj, WatchParams, revision_of};
use kstore_informer::{Action, Builder, Controller, Index, Object};
use kstore_nondet::Nondet;
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("the argument is a kubeconfig")?;
    let client = Client::connect(&Kubeconfig::read(path.as_ref())?, "replicas").await?;
    let (nondet, stop) = (Nondet::real(), CancellationToken::new());

    // Sets and their members come from one stream: both caches show the same revision.
    let multi = client.multi();
    let by_owner = Index::by_controller();
    let sets = multi.source::<ConfigMap>(WatchParams::default().labels("replicas"));
    let members = multi.source::<ConfigMap>(WatchParams::default().labels("member"));
    let sets = Builder::new(sets).name("sets").rng(&nondet.rng).spawn(&stop);
    let members = Builder::new(members).name("members").index(&by_owner).rng(&nondet.rng).spawn(&stop);

    let controller = Controller::new("replicas", &nondet)
        .watch(&sets, |set| Some(set.key()))
        .watch(&members, |member| member.controller().map(|(_, owner)| owner));
    let running = tokio::spawn(controller.run(stop.clone(), move |cx| {
        let (sets, members, by_owner) = (sets.clone(), members.clone(), by_owner.clone());
        let client = client.causes(&cx.causes);
        async move {
            let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
            let (maps, namespace) = (client.api::<ConfigMap>(), cx.key.namespace());
            let live = members.by(&by_owner, set.uid());
            println!("{}\twants {}\thas {}\tbecause of {}", cx.key, wanted(&set), live.len(), cx.causes);
            for i in live.len()..wanted(&set) {
                let made = maps.create(namespace, &member(&set, i)).await?;
                cx.wrote(&members, revision_of(&made)); // the next run sees it
            }
            for member in live.iter().skip(wanted(&set)) {
                maps.delete(namespace, member.key().name(), &DeleteParams::default().uid(member.uid()))
                    .await?;
            }
            Ok::<_, ApiError>(Action::Done)
        }
    }));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    running.await.context("the controller panicked")??;
    Ok(())
}

fn wanted(set: &Obj<ConfigMap>) -> usize {
    let label = set.metadata.labels.as_ref().and_then(|labels| labels.get("replicas"));
    label.and_then(|replicas| replicas.parse().ok()).unwrap_or_default()
}

fn member(set: &Obj<ConfigMap>, number: usize) -> ConfigMap {
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: set.key().name().into(),
        uid: set.uid().into(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-{number}-", set.key().name())),
        labels: Some(BTreeMap::from([("member".into(), "true".into())])),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

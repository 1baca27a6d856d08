//! A controller on any Kubernetes cluster: for each ConfigMap labelled `replicas=N` it creates N child
//! ConfigMaps and deletes surplus ones.
//!
//! `KUBECONFIG=… cargo run -p kstore-informer --features kube-rustls --example any_cluster`, then for
//! instance `kubectl create configmap web && kubectl label configmap web replicas=3`.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kstore_informer::kube::{Kube, KubeSource};
use kstore_informer::{Action, Builder, Controller, Environment, Index, Object};
use kube_client::api::{Api, DeleteParams, PostParams};
use kube_client::core::params::Preconditions;
use std::collections::BTreeMap;
use std::error::Error;
use tokio_util::sync::CancellationToken;

type Maps = KubeSource<Kube<ConfigMap>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = kube_client::Client::try_default().await?;
    let (environment, stop) = (Environment::real(), CancellationToken::new());

    let by_owner = Index::by_controller();
    let sets = Builder::new(Maps::new(&client).labels("replicas")).name("sets").spawn(&stop);
    let members = Maps::new(&client).labels("member");
    let members =
        Builder::new(members).name("members").index(&by_owner).rng(environment.randomness()).spawn(&stop);

    let controller = Controller::new("replicas", &environment)
        .watch(&sets, |set| Some(set.key()))
        .watch(&members, |member| member.controller().map(|(_, owner)| owner));
    let running = tokio::spawn(controller.run(stop.clone(), move |cx| {
        let (sets, members, by_owner) = (sets.clone(), members.clone(), by_owner.clone());
        let maps = Api::<ConfigMap>::namespaced(client.clone(), cx.key.namespace());
        async move {
            let Some(set) = sets.get(&cx.key) else { return Ok(Action::Done) };
            let live = members.by(&by_owner, set.uid());
            println!("{}\twants {}\thas {}\tbecause of {}", cx.key, wanted(&set), live.len(), cx.causes);
            for i in live.len()..wanted(&set) {
                let made = maps.create(&PostParams::default(), &member(&set, i)).await?;
                cx.wrote(&members, Kube::new(made).revision()); // the next run sees it
            }
            for member in live.iter().skip(wanted(&set)) {
                let uid = Some(member.uid().to_owned());
                let params =
                    DeleteParams::default().preconditions(Preconditions { uid, resource_version: None });
                match maps.delete(member.key().name(), &params).await {
                    Err(kube_client::Error::Api(status)) if status.code == 404 => {} // it is gone already
                    outcome => drop(outcome?),
                }
            }
            Ok::<_, kube_client::Error>(Action::Done)
        }
    }));
    tokio::signal::ctrl_c().await?;
    stop.cancel();
    Ok(running.await??)
}

fn wanted(set: &Kube<ConfigMap>) -> usize {
    let label = set.metadata.labels.as_ref().and_then(|labels| labels.get("replicas"));
    label.and_then(|replicas| replicas.parse().ok()).unwrap_or_default()
}

fn member(set: &Kube<ConfigMap>, number: usize) -> ConfigMap {
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

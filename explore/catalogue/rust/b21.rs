//! apache/superset-kubernetes-operator#151: the owner of a Deployment writes its whole spec, with one replica, and its autoscaler another
//! number, in turns. The load is an annotation.
//!
//! Fixed: the owner writes its own fields alone.

use crate::{Failure, thing_type, things};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use kube_client::Client;
use kube_client::api::{Api, DynamicObject, Patch, PatchParams, Resource as _, ResourceExt as _};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::{WatchStreamExt as _, watcher};
use serde_json::json;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The annotation of a Deployment with the number of replicas that its load needs.
const LOAD: &str = "example.com/load";

struct Owner {
    deployments: Api<Deployment>,
    is_fixed: bool,
}

/// Runs the owner until the process ends.
pub(crate) async fn run(client: Client, is_fixed: bool) {
    let owner = Owner { deployments: Api::default_namespaced(client.clone()), is_fixed };
    let config = watcher::Config::default().any_semantic();
    let controller = Controller::new_with(things(&client), config.clone(), thing_type())
        .owns(owner.deployments.clone(), config)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(20)), Arc::new(owner));
    controller
        .for_each(async |outcome| {
            if let Err(error) = outcome {
                println!("reconciling: {error}");
            }
        })
        .await;
}

async fn reconcile(thing: Arc<DynamicObject>, owner: Arc<Owner>) -> Result<Action, Failure> {
    let name = thing.name_any();
    let labels = json!({"thing": name, "config": thing.data["spec"]["config"]});
    let containers = json!([{"name": "main", "image": "example.com/main"}]);
    let mut spec = json!({
        "replicas": 1,
        "selector": {"matchLabels": {"thing": name}},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    });
    if owner.is_fixed {
        spec.as_object_mut().map(|spec| spec.remove("replicas"));
    }
    let reference = thing.controller_owner_ref(&thing_type());
    let metadata = json!({"name": name, "annotations": {LOAD: "3"}, "ownerReferences": [reference]});
    let wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec});
    let parameters = PatchParams::apply("owner").force();
    owner.deployments.patch(&name, &parameters, &Patch::Apply(wanted)).await?;
    Ok(Action::await_change())
}

/// Runs the autoscaler until the process ends.
pub(crate) async fn scale(client: Client) {
    let deployments = Api::<Deployment>::default_namespaced(client);
    let events = watcher(deployments.clone(), watcher::Config::default().any_semantic()).default_backoff();
    let mut changed = pin!(events.applied_objects());
    loop {
        let deployment = match changed.try_next().await {
            Ok(Some(deployment)) => deployment,
            Ok(None) => return,
            Err(error) => {
                println!("watching: {error}");
                continue;
            }
        };
        let wanted = deployment.annotations().get(LOAD).and_then(|load| load.parse::<i32>().ok());
        let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
        if wanted == replicas || wanted.is_none() {
            continue;
        }
        let patch = Patch::Merge(json!({"spec": {"replicas": wanted}}));
        if let Err(error) = deployments.patch(&deployment.name_any(), &PatchParams::default(), &patch).await {
            println!("scaling: {error}");
        }
    }
}

//! Calls about clusters, images and kubeconfigs.

use super::clock::ClockBody;
use super::{Call, Reply, parse};
use crate::authority::Credentials;
use crate::cluster::{LabCluster, LabImage};
use crate::error::{self, bad_request, conflict};
use crate::fault::RuleSet;
use crate::host::ComponentChoice;
use crate::idempotency::NamedTurn;
use crate::registry::StartOptions;
use crate::settle::{self, Settle};
use crate::{limits, objects, values};
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_client::Gvr;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

impl Call {
    /// The turn of this call among those that make something of a kind with this name.
    async fn named(&self, kind: &str, name: &str) -> NamedTurn<'_> {
        self.lab.named.turn(kind, name, &self.cluster.config.id, &self.body).await
    }
}

/// `GET /clusters`.
pub(super) fn list(call: &Call) -> Result<Reply, Status> {
    let reports = call.lab.clusters().into_iter().filter_map(|cluster| cluster.report().ok());
    Reply::ok(&json!({"clusters": reports.collect::<Vec<_>>()}))
}

/// What a cluster is started from.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FromBody {
    cluster: Option<String>,
    image: Option<String>,
}

/// Body of `POST /clusters`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StartBody {
    from: FromBody,
    name: Option<String>,
    seed: Option<u64>,
    clock: Option<ClockBody>,
    count: Option<usize>,
    components: Option<Vec<String>>,
    nodes: Option<usize>,
    faults: Option<RuleSet>,
}

/// Components by their names, with a number of nodes.
fn components(
    names: &[String],
    nodes: Option<usize>,
    known: ComponentChoice,
) -> Result<ComponentChoice, Status> {
    let mut choice = ComponentChoice::NONE;
    for name in names {
        match name.as_str() {
            "apiserver" => {}
            "controllers" => choice.controllers = true,
            "scheduler" => choice.scheduler = true,
            "kubelet-sim" => choice.nodes = nodes.unwrap_or(known.nodes.max(1)),
            other => {
                let text = format!("{other:?} is none of apiserver, controllers, scheduler, kubelet-sim");
                return Err(bad_request("/components", text));
            }
        }
    }
    Ok(choice)
}

impl StartBody {
    /// The options; the fault rules of the cluster that is forked are `inherited`.
    fn options(&self, image: &LabImage, inherited: &RuleSet) -> Result<StartOptions, Status> {
        if let Some(name) = &self.name {
            values::name(name, "/name")?;
        }
        let chosen = self.components.as_ref();
        let chosen = chosen.map(|names| components(names, self.nodes, image.components)).transpose()?;
        let components = match (chosen, self.nodes) {
            (None, Some(nodes)) => Some(ComponentChoice { nodes, ..image.components }),
            (chosen, _) => chosen,
        };
        if components.is_some_and(|components| components.nodes > limits::NODES) {
            return Err(bad_request("/nodes", format!("must be at most {}", limits::NODES)));
        }
        let mode = self.clock.as_ref().map(|clock| clock.mode("/clock")).transpose()?;
        let faults = self.faults.as_ref().unwrap_or(inherited).clone();
        faults.check()?;
        Ok(StartOptions { name: self.name.clone(), seed: self.seed, mode, components, faults })
    }
}

/// `POST /clusters`.
pub(super) async fn start(call: &Call) -> Result<Reply, Status> {
    let body: StartBody = parse::body(&call.body)?;
    let count = body.count.unwrap_or(1);
    if count == 0 || count > limits::COUNT {
        return Err(bad_request("/count", format!("must be from 1 to {}", limits::COUNT)));
    }
    if count > 1 && body.name.is_some() {
        return Err(bad_request("/name", "several clusters cannot have one name"));
    }
    let name = body.name.as_deref();
    if let Some(name) = name {
        values::name(name, "/name")?;
    }
    let turn = match name {
        Some(name) => Some(call.named("cluster", name).await),
        None => None,
    };
    if let (Some(turn), Some(Ok(cluster))) = (&turn, name.map(|name| call.lab.cluster(name)))
        && turn.is_repeated()
    {
        return Reply::ok(&cluster.report()?);
    }
    let started = forked(call, &body, count).await?;
    if let Some(turn) = turn {
        turn.has_made();
    }
    let reports = started.iter().map(|cluster| cluster.report()).collect::<Result<Vec<_>, _>>()?;
    match (count, reports.first()) {
        (1, Some(report)) => Reply::with(201, report),
        _ => Reply::with(201, &json!({"clusters": reports})),
    }
}

/// Starts clusters from what a call names.
async fn forked(call: &Call, body: &StartBody, count: usize) -> Result<Vec<Arc<LabCluster>>, Status> {
    let forked = match (&body.from.image, &body.from.cluster) {
        (Some(_), Some(_)) => return Err(bad_request("/from", "has either a cluster or an image")),
        (Some(_), None) => None,
        (None, Some(name)) => Some(call.lab.cluster(name)?),
        (None, None) => Some(call.cluster.clone()),
    };
    let (image, from) = match (&body.from.image, &forked) {
        (None, Some(cluster)) => {
            (Arc::new(cluster.image("").await?), format!("cluster {}", cluster.config.id))
        }
        (name, _) => {
            let name = name.as_deref().unwrap_or_default();
            (call.lab.image(name)?, format!("image {name}"))
        }
    };
    let inherited = forked.map(|cluster| cluster.faults()).unwrap_or_default();
    let mut started: Vec<Arc<LabCluster>> = Vec::new();
    for _ in 0..count {
        match call.lab.start_from(&image, from.clone(), body.options(&image, &inherited)?).await {
            Ok(cluster) => started.push(cluster),
            Err(refused) => {
                for cluster in started {
                    call.lab.end_cluster(&cluster.config.id).await?;
                }
                return Err(refused);
            }
        }
    }
    Ok(started)
}

/// `DELETE /clusters/{id}`.
pub(super) async fn end(call: &Call, id: &str) -> Result<Reply, Status> {
    call.lab.end_cluster(id).await?;
    Reply::ok(&json!({"id": id, "ended": true}))
}

/// Body of `POST /clusters/{id}/reset`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ResetBody {
    to: Option<String>,
}

/// `POST /clusters/{id}/reset`.
pub(super) async fn reset(call: &Call, id: &str) -> Result<Reply, Status> {
    let body: ResetBody = parse::body(&call.body)?;
    let cluster = call.lab.cluster(id)?;
    let image = body.to.as_deref().map(|name| call.lab.image(name)).transpose()?;
    // A reset ends the connection that asks for it, if it asks at the cluster's own port: the work goes on without it.
    let resetting = cluster.clone();
    let reset = tokio::spawn(async move { resetting.reset(image.as_ref()).await });
    reset.await.map_err(Status::internal)??;
    Reply::ok(&cluster.report()?)
}

/// An image in answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageReport<'i> {
    name: &'i str,
    time: Timestamp,
    revision: i64,
    objects: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    history: i64,
    shared_by: usize,
}

pub(super) fn image_report(image: &LabImage, shared_by: usize) -> ImageReport<'_> {
    ImageReport {
        name: &image.name,
        time: image.state.time(),
        revision: image.state.revision().0,
        objects: image.objects,
        bytes: image.state.store().bytes(),
        seed: image.seed,
        history: image.history,
        shared_by,
    }
}

/// `GET /images`.
pub(super) fn images(call: &Call) -> Result<Reply, Status> {
    let images = call.lab.images();
    let reports: Vec<_> = images.iter().map(|(image, shared)| image_report(image, *shared)).collect();
    Reply::ok(&json!({"images": reports}))
}

/// Body of `POST /images`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageBody {
    name: String,
    settled: Option<bool>,
}

/// `POST /images`.
pub(super) async fn take_image(call: &Call) -> Result<Reply, Status> {
    let body: ImageBody = parse::body(&call.body)?;
    values::name(&body.name, "/name")?;
    let turn = call.named("image", &body.name).await;
    if let Some((image, shared)) = call.lab.images().iter().find(|(image, _)| image.name == body.name) {
        return match turn.is_repeated() {
            true => Reply::ok(&image_report(image, *shared)),
            false => {
                Err(conflict(format!("an image has the name {:?}, and another call made it", body.name)))
            }
        };
    }
    if body.settled == Some(true) {
        let bridge = call.cluster.current()?.bridge;
        let is_virtual = call.cluster.mode() == crate::clock::Mode::Manual;
        let _moving = is_virtual.then(|| call.cluster.begin_moving()).transpose()?;
        let how = Settle { limit: limits::SETTLE, patience: limits::PATIENCE, is_virtual };
        let settled = settle::settle(bridge.settling(), how).await?;
        if !settled.settled {
            let busy = settled.busy.iter().map(crate::client::quiet::Busy::line);
            return Err(error::timeout("the cluster is not settled, so no image was taken", busy));
        }
    }
    let image = call.lab.keep_image(call.cluster.image(&body.name).await?)?;
    turn.has_made();
    Reply::with(201, &image_report(&image, 0))
}

/// `DELETE /images/{name}`.
pub(super) fn delete_image(call: &Call, name: &str) -> Result<Reply, Status> {
    call.lab.delete_image(name);
    Reply::ok(&json!({"name": name, "deleted": true}))
}

/// Body of `POST /kubeconfigs`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
struct KubeconfigBody {
    user: Option<String>,
    groups: Vec<String>,
    service_account: Option<String>,
    lifetime: Option<String>,
}

/// `POST /kubeconfigs`.
pub(super) async fn kubeconfig(call: &Call) -> Result<Reply, Status> {
    let body: KubeconfigBody = parse::body(&call.body)?;
    let yaml = match (&body.user, &body.service_account) {
        (Some(user), None) => {
            one_group(&body.groups)?;
            if body.lifetime.is_some() {
                return Err(bad_request("/lifetime", "belongs to tokens: certificates are valid for ever"));
            }
            call.cluster.kubeconfig(&Credentials::Certificate(user, &body.groups))?
        }
        (None, Some(account)) => {
            let token = token(call, account, body.lifetime.as_deref()).await?;
            call.cluster.kubeconfig(&Credentials::Token(account, &token))?
        }
        _ => return Err(bad_request("/", "needs either user or serviceAccount")),
    };
    Reply::with(201, &json!({"kubeconfig": yaml}))
}

/// Refuses several groups: a subject of the library for certificates has one organization.
pub(super) fn one_group(groups: &[String]) -> Result<(), Status> {
    match groups.len() > 1 {
        true => Err(error::not_there_yet("a certificate with several groups")),
        false => Ok(()),
    }
}

/// A token of a service account, by a TokenRequest.
pub(super) async fn token(call: &Call, account: &str, lifetime: Option<&str>) -> Result<String, Status> {
    let named = account.split_once('/').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
    let (namespace, name) = named.ok_or_else(|| bad_request("/serviceAccount", "use NAMESPACE/NAME"))?;
    let lifetime = lifetime.map(|text| values::duration(text, "/lifetime")).transpose()?;
    let lifetime = lifetime.unwrap_or(limits::TOKEN);
    if lifetime > limits::TOKEN {
        return Err(bad_request("/lifetime", "must be at most 10 years"));
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": lifetime.as_secs()}});
    let running = call.cluster.current()?.running().clone();
    let (host, namespace, name) = (running.clone(), namespace.to_owned(), name.to_owned());
    let asking = running.call(async move {
        let api = objects::client(&host).dynamic(Gvr::new("", "v1", "serviceaccounts"));
        api.create_subresource(&namespace, &name, "token", &request).await
    });
    let answer = asking
        .await
        .map_err(|_| error::ended())?
        .map_err(|refused| bad_request("/serviceAccount", refused))?;
    let token = answer["status"]["token"].as_str();
    token.map(str::to_owned).ok_or_else(|| Status::internal("the answer to the TokenRequest has no token"))
}

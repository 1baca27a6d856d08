//! Calls about simulated nodes: their power and their faults.

use super::{Call, Reply, parse};
use crate::error::{self, bad_request};
use crate::form;
use crate::objects;
use kstore_api::status::Status;
use kstore_cluster::NodeFaultError;
use kstore_kubelet_sim::{FaultChange, FaultError, FaultReport, NodeFault};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// `POST /nodes/{name}/stop` and `…/start`.
pub(super) async fn set_power(call: &Call, name: &str, stops: bool) -> Result<Reply, Status> {
    let running = call.cluster.current()?.running().clone();
    let (host, node) = (running.clone(), name.to_owned());
    let ordering = running.call(async move {
        let nodes = host.plane.nodes();
        if stops { nodes.stop_node(&node).await } else { nodes.resume_node(&node).await }
    });
    let ordered = ordering.await.map_err(|_| error::ended())?;
    ordered.map_err(|_| error::not_found("simulated node", name))?;
    Reply::ok(&json!({"name": name, "running": !stops}))
}

/// Body of `POST /nodes/{name}/faults`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultBody {
    fault: String,
    value: Option<String>,
    #[serde(default, with = "form::optional_duration")]
    after: Option<Duration>,
    #[serde(default, with = "form::optional_duration")]
    duration: Option<Duration>,
    #[serde(default, with = "form::optional_duration")]
    every: Option<Duration>,
}

/// `GET /nodes/{name}/faults`.
pub(super) async fn faults(call: &Call, name: &str) -> Result<Reply, Status> {
    parse::only(&call.query, &[])?;
    let running = call.cluster.current()?.running().clone();
    let (host, node) = (running.clone(), name.to_owned());
    let asking = running.call(async move { host.plane.node_faults(&node).await });
    let faults = asking.await.map_err(|_| error::ended())?;
    report(200, name, faults)
}

/// `POST /nodes/{name}/faults`: one more fault.
pub(super) async fn add_fault(call: &Call, name: &str) -> Result<Reply, Status> {
    let FaultBody { fault, value, after, duration, every } = parse::body(&call.body)?;
    let item = NodeFault { fault, value, after, duration, every }.item();
    let item = item.map_err(|problem| bad_request("/fault", problem))?;
    change(call, (201, name), FaultChange::Add(item)).await
}

/// `DELETE /nodes/{name}/faults`, of one name with `?fault=NAME`.
pub(super) async fn heal(call: &Call, name: &str) -> Result<Reply, Status> {
    parse::only(&call.query, &["fault"])?;
    let fault = parse::text(&call.query, "fault");
    if let Some(fault) = fault {
        NodeFault::check_name(fault).map_err(|problem| bad_request("fault", problem))?;
    }
    change(call, (200, name), FaultChange::Heal(fault.map(str::to_owned))).await
}

async fn change(call: &Call, (code, name): (u16, &str), change: FaultChange) -> Result<Reply, Status> {
    let running = call.cluster.current()?.running().clone();
    let (host, node) = (running.clone(), name.to_owned());
    let changing = running.call(async move {
        let client = objects::client(&host);
        host.plane.change_node_faults(&client, &node, &change).await
    });
    let changed = changing.await.map_err(|_| error::ended())?;
    report(code, name, changed)
}

/// The answer with the faults of a node.
fn report(code: u16, name: &str, faults: Result<Vec<FaultReport>, NodeFaultError>) -> Result<Reply, Status> {
    match faults {
        Ok(faults) => Reply::with(code, &json!({"name": name, "faults": faults})),
        Err(NodeFaultError::Node(FaultError::NoSuchNode(_) | FaultError::Ended)) => {
            Err(error::not_found("simulated node", name))
        }
        Err(NodeFaultError::TooMany(_)) => {
            Err(error::too_many("nodeFaults", FaultChange::MOST, "too many faults of the node"))
        }
        Err(NodeFaultError::Api(error)) => match error.status() {
            Some(status) if status.code == 404 => Err(error::not_found("simulated node", name)),
            Some(status) => Err(status.clone()),
            None => Err(Status::internal(error)),
        },
    }
}

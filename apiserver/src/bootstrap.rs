//! What every cluster has from the start: namespaces, priority classes, flow control, API services, the service of the API itself
//! with its addresses, roles and bindings. Made through the pipeline like anything else, if they are not there yet; what somebody
//! has changed stays changed. Kept right at every start are only what says where this server is (`here`) and what the default
//! roles grant (`roles`).

mod here;
mod network;
mod objects;
mod roles;

use crate::authn::{MASTERS, UserInfo};
use crate::authz::bootstrap as rbac;
use crate::error;
use crate::limits::INITIAL_OBJECTS_PER_TASK;
use crate::pipeline::Pipeline;
use crate::request::{Action, Body, Request, Target, WriteOptions};
use futures::future::join_all;
pub use here::Here;
use kstore_api::flowcontrol;
use kstore_api::kind::{self, Resource};
use kstore_api::meta;
use kstore_api::status::{Reason, Status};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// As whom the apiserver writes on its own behalf.
pub(crate) const SELF: &str = "system:apiserver";

/// Creates what is missing, and says where this server is. On return all of it is there and durable. Two servers that do this at
/// once do each other no harm; the addresses are those of the one that came last.
///
/// # Errors
/// The first refusal that is not "already there".
pub async fn run(pipeline: &Arc<Pipeline>, here: &Here) -> Result<(), Status> {
    // Namespaces come before what lives in them. All else waits for nothing and goes at once, so that the storage can make few
    // syncs of many writes.
    // The network comes before the service that has its address from it.
    tokio::try_join!(create_all(pipeline, objects::namespaces()), network::keep(pipeline))?;
    let rbac = rbac::objects();
    let stored: Vec<&Value> = rbac.iter().filter(|object| is_there(pipeline, object)).collect();
    let mut rest = objects::priority_classes();
    rest.extend(flowcontrol::objects());
    rest.extend(objects::api_services());
    rest.extend(rbac.iter().cloned());
    rest.push(objects::kubernetes_service(pipeline.registry().service_ranges(), here.port()));
    tokio::try_join!(create_all(pipeline, rest), roles::keep(pipeline, &stored))?;
    pipeline.update_flow_schemas().await;
    here.keep(pipeline).await
}

/// Creates the objects that are missing, on all threads of the runtime: each takes some microseconds of processor time, and together
/// they are most of the time in which a cluster starts.
async fn create_all(pipeline: &Arc<Pipeline>, objects: Vec<Value>) -> Result<(), Status> {
    let mut missing = objects.into_iter().filter(|object| !is_there(pipeline, object)).peekable();
    let mut tasks = Vec::new();
    while missing.peek().is_some() {
        let objects: Vec<Value> = missing.by_ref().take(INITIAL_OBJECTS_PER_TASK).collect();
        let pipeline = pipeline.clone();
        let created = async move {
            let created = join_all(objects.iter().map(|object| create_missing(&pipeline, object))).await;
            created.into_iter().collect::<Result<(), Status>>()
        };
        tasks.push(AbortOnDropHandle::new(tokio::spawn(created)));
    }
    for task in tasks {
        task.await.expect("creating initial objects neither panics nor is cancelled while it is awaited")?;
    }
    Ok(())
}

/// Creates an object, unless another apiserver on the same storage is faster. That one may also have what this one would need: the
/// address of the API's own service is then refused as taken.
async fn create_missing(pipeline: &Pipeline, object: &Value) -> Result<(), Status> {
    match pipeline.serve(create(row_of(object), object)).await {
        Ok(_) => Ok(()),
        Err(refused) if refused.status.reason == Reason::AlreadyExists => Ok(()),
        Err(refused) => {
            pipeline.cache().fresh().await.map_err(error::of_read)?;
            if is_there(pipeline, object) { Ok(()) } else { Err(refused.status) }
        }
    }
}

fn is_there(pipeline: &Pipeline, object: &Value) -> bool {
    let row = row_of(object);
    let key = row.storage_key(meta::namespace(object), meta::name(object));
    pipeline.cache().get(row, &key).is_some()
}

fn row_of(object: &Value) -> &'static Resource {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    kind::lookup_api_version(text("apiVersion"), text("kind"))
        .expect("initial objects are of kinds in the table")
}

fn create(row: &'static Resource, object: &Value) -> Request {
    let body = serde_json::to_vec(object).expect("a value has string keys only");
    let target = Target {
        resource: row,
        custom: None,
        subresource: "",
        namespace: meta::namespace(object).into(),
        name: String::new(),
    };
    let options = WriteOptions { field_manager: "kstore-apiserver".into(), ..WriteOptions::default() };
    own_request(target, Action::Create(Body::json(body.into()), options))
}

/// A request of the apiserver on its own behalf. Webhooks do not see it.
pub(crate) fn own_request(target: Target, action: Action) -> Request {
    Request {
        user: UserInfo::new(SELF, [MASTERS]).into(),
        agent: "kstore-apiserver".into(),
        causes: Vec::new(),
        fence: None,
        stage: None,
        timeout: None,
        target,
        action,
    }
}

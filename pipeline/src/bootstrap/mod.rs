//! The initial objects of every cluster: namespaces, priority classes, flow control, APIServices, the Service
//! of the API with its addresses, roles and bindings. They are created through the pipeline like any other
//! object if they are absent, and later changes by users are kept. Only two sets are updated at every start:
//! the objects that describe this server (`server_identity`) and the grants of the default roles (`roles`).
//! `token_tracking` has the day since which the use of tokens in Secrets is recorded.

mod network;
mod objects;
mod roles;
mod server_identity;
mod token_tracking;

use crate::pipeline::{Pipeline, row_of};
use futures::future::{BoxFuture, join_all};
use kstore_access::authz::bootstrap as rbac;
use kstore_api::resource::Resource;
use kstore_api::status::{Reason, Status};
use kstore_api::{flowcontrol, meta};
use kstore_registry::error;
use kstore_registry::request::{Action, Body, FieldValidation, Request, Target, WriteOptions, own_request};
use kstore_storage::limits::{BOOTSTRAP_PAUSE, BOOTSTRAP_TRIES, INITIAL_OBJECTS_PER_TASK};
use serde_json::Value;
pub use server_identity::{FRONT_PROXY, ServerIdentity};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Creates missing objects, and updates those that describe this server. On return all of them exist and are
/// durable. Two servers may do this concurrently; the addresses are then those of the later one.
///
/// On an overloaded machine the watch cache can lag behind the storage for longer than a request may wait. The
/// steps are therefore repeated up to [`BOOTSTRAP_TRIES`] times: objects that exist already are skipped.
///
/// A full storage accepts deletions, which make room. So a server of an existing cluster starts without these writes.
///
/// Boxed here, so that no crate above generates the code again.
///
/// # Errors
/// The first refusal other than "already exists", or 503 after the last try.
pub fn run<'a>(
    pipeline: &'a Arc<Pipeline>,
    identity: &'a ServerIdentity,
) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(create_or_start_without(pipeline, identity))
}

async fn create_or_start_without(pipeline: &Arc<Pipeline>, identity: &ServerIdentity) -> Result<(), Status> {
    match repeat_until_served(pipeline, identity).await {
        Err(status) if status.reason == Reason::InsufficientStorage && is_cluster(pipeline, identity) => {
            tracing::warn!(
                error = %status,
                "some initial objects cannot be brought up to date; reads and deletions are served. Restart when there \
                 is space"
            );
            Ok(())
        }
        done => done,
    }
}

/// Whether the storage has an existing cluster: its namespaces and the Service of the API.
fn is_cluster(pipeline: &Pipeline, identity: &ServerIdentity) -> bool {
    let service = objects::kubernetes_service(pipeline.registry().service_ranges(), identity.port());
    objects::namespaces().iter().chain([&service]).all(|object| is_stored(pipeline, object))
}

async fn repeat_until_served(pipeline: &Arc<Pipeline>, identity: &ServerIdentity) -> Result<(), Status> {
    for _ in 1..BOOTSTRAP_TRIES {
        match create_missing_objects(pipeline, identity).await {
            Err(status) if status.reason == Reason::ServiceUnavailable => {
                tracing::warn!(error = %status, "the initial objects cannot be created yet");
                tokio::time::sleep(BOOTSTRAP_PAUSE).await;
            }
            done => return done,
        }
    }
    create_missing_objects(pipeline, identity).await
}

/// Writes the ConfigMap of the authorities that extension API servers trust, with these authorities instead of those
/// of the start.
///
/// # Errors
/// The storage refuses it.
/// Boxed here, so that no crate above generates the code again.
pub fn publish_authorities<'a>(
    pipeline: &'a Pipeline,
    identity: &'a ServerIdentity,
    client_ca: Option<String>,
    front_proxy_ca: Option<String>,
) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(async move {
        identity.clone().with_authorities(client_ca, front_proxy_ca).reconcile_authentication(pipeline).await
    })
}

async fn create_missing_objects(pipeline: &Arc<Pipeline>, identity: &ServerIdentity) -> Result<(), Status> {
    // Flow control needs nothing of the rest, and its conditions take as long as all other objects.
    let flow_control = AbortOnDropHandle::new(tokio::spawn(create_flow_control(pipeline.clone())));
    // Namespaces come before the objects in them. The other objects are created concurrently, so that the
    // storage can write many with few syncs.
    // The ServiceCIDR comes before the Service whose address is allocated from it.
    tokio::try_join!(create_all(pipeline, objects::namespaces()), network::reconcile(pipeline))?;
    let kinds = pipeline.cache().kinds();
    let rbac = rbac::objects_with(kinds.rows().opt_in()).into_iter();
    let (stored, missing): (Vec<Value>, Vec<Value>) = rbac.partition(|object| is_stored(pipeline, object));
    let mut rest = objects::priority_classes();
    rest.extend(objects::api_services(kinds.rows()));
    rest.extend(missing);
    rest.push(objects::kubernetes_service(pipeline.registry().service_ranges(), identity.port()));
    tokio::try_join!(create_all(pipeline, rest), roles::reconcile(pipeline, &stored))?;
    flow_control.await.expect(AWAITED)?;
    // After the other objects: by now the cache shows the namespaces.
    tokio::try_join!(token_tracking::reconcile(pipeline), identity.reconcile(pipeline))?;
    Ok(())
}

/// Field manager of the initial objects.
const MANAGER: &str = "kstore-apiserver";

/// Why a task of the start always has a result.
const AWAITED: &str = "creating initial objects neither panics nor is cancelled while it is awaited";

/// Creates the missing flow schemas and priority levels, and then the conditions of all schemas.
async fn create_flow_control(pipeline: Arc<Pipeline>) -> Result<(), Status> {
    let minor = pipeline.cache().kinds().rows().opt_in().minor();
    create_all(&pipeline, flowcontrol::objects_of(minor)).await?;
    pipeline.update_flow_schemas().await;
    Ok(())
}

/// Creates missing objects on all threads of the runtime: each takes some microseconds of processor time, and
/// together they are most of the time that a cluster takes to start.
async fn create_all(pipeline: &Arc<Pipeline>, objects: Vec<Value>) -> Result<(), Status> {
    let mut missing = objects.into_iter().filter(|object| !is_stored(pipeline, object)).peekable();
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
        task.await.expect(AWAITED)?;
    }
    Ok(())
}

/// Creates an object, unless another apiserver on the same storage is faster. The faster server's object also
/// holds the claims of this one: the address of the API's Service is then refused as taken.
async fn create_missing(pipeline: &Pipeline, object: &Value) -> Result<(), Status> {
    match pipeline.serve(create(row_of(object), object)).await {
        Ok(_) => Ok(()),
        Err(refused) if refused.status.reason == Reason::AlreadyExists => Ok(()),
        Err(refused) => {
            pipeline.cache().fresh().await.map_err(error::of_read)?;
            if is_stored(pipeline, object) { Ok(()) } else { Err(refused.status) }
        }
    }
}

fn is_stored(pipeline: &Pipeline, object: &Value) -> bool {
    let row = row_of(object);
    let key = row.storage_key(meta::namespace(object), meta::name(object));
    pipeline.cache().get(row, &key).is_some()
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
    let options = WriteOptions {
        field_manager: MANAGER.into(),
        // The warnings are dropped, and finding them takes half the time of decoding.
        field_validation: FieldValidation::Ignore,
        ..WriteOptions::default()
    };
    own_request(target, Action::Create(Body::json(body.into()), options))
}

//! The gRPC front end `kstore.v1`: messages → [`Request`] → pipeline → messages. One verb per file; the
//! contract is in the proto file.

mod audited;
pub(crate) mod authenticate;
mod bind;
mod call_body;
mod create;
mod deadline;
mod delete;
mod each;
mod get;
mod item_bounds;
mod list;
mod patch;
mod seats;
mod transact;
pub(crate) mod tunnel;
mod update;
mod watch;

use crate::access;
use crate::agent::{check_field_manager, default_field_manager, user_agent};
use crate::tunnel::Tunnels;
use bytes::Bytes;
use kstore_access::audit::{self, Audit};
use kstore_access::authn::RequestHead;
use kstore_access::peer::Peer;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::{Answer, Pipeline, Refused};
use kstore_proto::kstore::v1 as pb;
use kstore_registry::conversion::in_version;
use kstore_registry::error::{invalid_option_of, timed_out, to_grpc};
use kstore_registry::fence::Fence;
use kstore_registry::kinds::{Kinds, Served};
use kstore_registry::request::{Action, FieldValidation, ManagedFieldsUpdate, Request, Target, WriteOptions};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{MetadataMap, MetadataValue};

type Streamed<T> = Pin<Box<dyn futures::Stream<Item = Result<T, tonic::Status>> + Send>>;

/// The metadata key of the field manager of a write.
const FIELD_MANAGER: &str = "kstore-field-manager";

/// The gRPC front end. One per apiserver; cheap to clone.
#[derive(Clone)]
pub struct Grpc {
    pipeline: Arc<Pipeline>,
    tunnels: Arc<Tunnels>,
    audit: Option<Arc<Audit>>,
    stop: CancellationToken,
}

/// The caller of one call and its metadata: identity, causes, fence, field manager and timeout.
struct Caller {
    /// The kinds that were served when the call arrived.
    kinds: Arc<Kinds>,
    user: Arc<UserInfo>,
    agent: String,
    causes: Vec<i64>,
    fence: Option<Arc<Fence>>,
    field_manager: String,
    /// How long the caller waits for the answer.
    timeout: Option<Duration>,
    /// Whether the caller came over the network, and not from within this process.
    is_remote: bool,
    /// Whether the call runs on seats of a priority level.
    has_seat: bool,
    /// The remaining lifetime of the caller's credentials, if they expire.
    credentials: Option<Duration>,
}

impl Grpc {
    /// A front end of a pipeline. Nodes open their tunnels into `tunnels`; `stop` ends tunnels and open
    /// watches.
    pub fn new(pipeline: Arc<Pipeline>, tunnels: Arc<Tunnels>, stop: CancellationToken) -> Self {
        Self { pipeline, tunnels, audit: None, stop }
    }

    /// Adds an audit log.
    pub(crate) fn with_audit(self, audit: Option<Arc<Audit>>) -> Self {
        Self { audit, ..self }
    }

    async fn caller<T>(&self, request: &tonic::Request<T>) -> Result<Caller, tonic::Status> {
        let headers: &http::HeaderMap = request.metadata().as_ref();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // tonic copies the extensions that the connection added to the HTTP request into the call's.
        let user = match request.extensions().get() {
            Some(authenticate::Authenticated(user)) => user.clone(),
            None => {
                // A call that reaches this point has no path any more, so it is at none of those that are served
                // without credentials.
                let identified =
                    self.pipeline.authenticate(request.extensions().get(), RequestHead::of_call(headers, ""));
                let identified = tracing::Instrument::instrument(identified, tracing::debug_span!("authn"));
                identified.await.map_err(|status| to_grpc(&status))?
            }
        };
        access::authenticated(request.extensions(), &user);
        audit::record_impersonation(&user);
        let agent = user_agent(headers);
        let field_manager = headers.get(FIELD_MANAGER).map_or(&[][..], |value| value.as_bytes());
        let field_manager = match std::str::from_utf8(field_manager) {
            Ok("") => Ok(default_field_manager(&agent)),
            Ok(manager) => check_field_manager(manager).map(|()| manager.to_owned()),
            Err(_) => Err("Invalid value: must be UTF-8".to_owned()),
        };
        let field_manager = field_manager
            .map_err(|problem| to_grpc(&invalid_option_of("WriteOptions", FIELD_MANAGER, &problem)))?;
        let fence = Fence::of(headers).map_err(|status| to_grpc(&status))?;
        let causes = kstore_registry::request::causes(text("kstore-cause"));
        let timeout = deadline::parse(text(deadline::HEADER)).map_err(|status| to_grpc(&status))?;
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(to_grpc(&timed_out()));
        }
        let peer = request.extensions().get();
        let is_remote = matches!(peer, Some(Peer::Tls { .. }));
        let has_seat = request.extensions().get::<seats::HasSeat>().is_some();
        let credentials = self.pipeline.credentials_last(peer, headers);
        let kinds = self.pipeline.cache().kinds();
        Ok(Caller {
            kinds,
            user,
            causes,
            fence,
            agent,
            field_manager,
            timeout,
            is_remote,
            has_seat,
            credentials,
        })
    }

    /// Runs a unary request and answers with its object.
    async fn object(
        &self,
        caller: Caller,
        target: Target,
        action: Action,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        let resource = target.resource;
        let has_seat = caller.has_seat;
        let request = caller.request(target, action);
        let answered =
            self.pipeline.serve_with(request, has_seat).await.map_err(|refused| refusal(&refused))?;
        let mut response = tonic::Response::new(object_of(resource, answered.answer)?);
        warn(response.metadata_mut(), &answered.warnings);
        Ok(response)
    }
}

/// Adds warnings to the metadata of a response.
fn warn(metadata: &mut MetadataMap, warnings: &[String]) {
    for warning in warnings {
        metadata.append_bin("kstore-warning-bin", MetadataValue::from_bytes(warning.as_bytes()));
    }
}

/// The gRPC form of a refusal.
fn refusal(refused: &Refused) -> tonic::Status {
    let mut status = to_grpc(&refused.status);
    warn(status.metadata_mut(), &refused.warnings);
    status
}

/// Encodes an answer that is one object, in the caller's version.
fn object_of(resource: &'static Resource, answer: Answer) -> Result<pb::Object, tonic::Status> {
    Ok(match answer {
        Answer::Object(object) if object.entry.resource.is_same_version(resource) => {
            pb::Object { json: object.entry.json(), revision: object.entry.revision }
        }
        Answer::Object(object) => {
            let value = in_version(resource, object.entry.parse());
            pb::Object { json: value.to_string().into(), revision: object.entry.revision }
        }
        Answer::Value { value, .. } => {
            let revision = kstore_api::meta::resource_version(&value).parse().unwrap_or(0);
            pb::Object { json: value.to_string().into(), revision }
        }
        Answer::Status { status, revision } => pb::Object { json: status.to_json().into(), revision },
        Answer::List(_) | Answer::Watch(_) => {
            return Err(tonic::Status::internal("a unary call has one object"));
        }
    })
}

impl Caller {
    fn request(self, target: Target, action: Action) -> Request {
        let Self { user, agent, causes, fence, timeout, .. } = self;
        let bound = None;
        Request { user, agent, causes, fence, stage: None, group: None, timeout, bound, target, action }
    }

    fn options(&self, dry_run: bool, validation: pb::FieldValidation) -> WriteOptions {
        WriteOptions {
            dry_run,
            field_manager: self.field_manager.clone(),
            names_manager: true,
            names_validation: true,
            field_validation: match validation {
                pb::FieldValidation::Ignore => FieldValidation::Ignore,
                pb::FieldValidation::Warn => FieldValidation::Warn,
                pb::FieldValidation::Strict => FieldValidation::Strict,
            },
            force: false,
            managed_fields: ManagedFieldsUpdate::Tracked,
            includes_uninitialized: false,
        }
    }
}

/// Resolves the resource reference of a message.
fn target(kinds: &Kinds, reference: Option<pb::Ref>) -> Result<Target, tonic::Status> {
    let reference = reference
        .ok_or_else(|| tonic::Status::invalid_argument("`ref` is missing: it names the resource"))?;
    let served = kinds.lookup(&reference.group, &reference.version, &reference.resource);
    let Served { resource, custom } = served.ok_or_else(|| to_grpc(&Status::no_such_route()))?;
    let subresource = match reference.subresource.as_str() {
        "" => "",
        name => {
            resource.subresource(name).map(|sub| sub.name).ok_or_else(|| to_grpc(&Status::no_such_route()))?
        }
    };
    let namespace = if resource.namespaced { reference.namespace } else { String::new() };
    Ok(Target { resource, custom, subresource, namespace, name: reference.name })
}

/// Checks a body against the limit that REST and gRPC share.
fn within_limit(bytes: Bytes) -> Result<Bytes, tonic::Status> {
    if bytes.len() > limits::BODY_BYTES {
        return Err(to_grpc(&Status::too_large(&format!("limit is {}", limits::BODY_BYTES))));
    }
    Ok(bytes)
}

#[tonic::async_trait]
impl pb::kstore_server::Kstore for Grpc {
    type ListStream = Streamed<pb::ListChunk>;
    type DeleteCollectionStream = Streamed<pb::ListChunk>;
    type WatchStream = Streamed<pb::WatchBatch>;
    type TunnelStream = Streamed<pb::TunnelDown>;

    async fn get(
        &self,
        request: tonic::Request<pb::GetRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "Get", request, |request| get::serve(self, request)).await
    }

    async fn list(
        &self,
        request: tonic::Request<pb::ListRequest>,
    ) -> Result<tonic::Response<Self::ListStream>, tonic::Status> {
        audited::serve(self, "List", request, |request| list::serve(self, request)).await
    }

    async fn watch(
        &self,
        request: tonic::Request<pb::WatchRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, tonic::Status> {
        audited::serve(self, "Watch", request, |request| watch::serve(self, request)).await
    }

    async fn create(
        &self,
        request: tonic::Request<pb::CreateRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "Create", request, |request| create::serve(self, request)).await
    }

    async fn update(
        &self,
        request: tonic::Request<pb::UpdateRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "Update", request, |request| update::serve(self, request, None)).await
    }

    async fn update_status(
        &self,
        request: tonic::Request<pb::UpdateRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "UpdateStatus", request, |request| update::serve(self, request, Some("status")))
            .await
    }

    async fn patch(
        &self,
        request: tonic::Request<pb::PatchRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "Patch", request, |request| patch::serve(self, request)).await
    }

    async fn delete(
        &self,
        request: tonic::Request<pb::DeleteRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "Delete", request, |request| delete::serve(self, request)).await
    }

    async fn bind(
        &self,
        request: tonic::Request<pb::BindRequest>,
    ) -> Result<tonic::Response<pb::Object>, tonic::Status> {
        audited::serve(self, "Bind", request, |request| bind::serve(self, request)).await
    }

    async fn delete_collection(
        &self,
        request: tonic::Request<pb::DeleteCollectionRequest>,
    ) -> Result<tonic::Response<Self::DeleteCollectionStream>, tonic::Status> {
        audited::serve(self, "DeleteCollection", request, |request| delete::collection(self, request)).await
    }

    async fn transact(
        &self,
        request: tonic::Request<pb::TransactRequest>,
    ) -> Result<tonic::Response<pb::TransactResponse>, tonic::Status> {
        audited::serve(self, "Transact", request, |request| transact::serve(self, request)).await
    }

    async fn each(
        &self,
        request: tonic::Request<pb::EachRequest>,
    ) -> Result<tonic::Response<pb::EachResponse>, tonic::Status> {
        each::serve(self, request).await
    }

    async fn tunnel(
        &self,
        request: tonic::Request<tonic::Streaming<pb::TunnelUp>>,
    ) -> Result<tonic::Response<Self::TunnelStream>, tonic::Status> {
        audited::serve(self, "Tunnel", request, |request| tunnel::serve(self, request)).await
    }
}

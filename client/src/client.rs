//! [`Client`]: a client of kstore's API over any tower service. It knows the transport of calls; `typed` and
//! `dynamic` give them types.

use crate::ApiError;
use crate::limits::MAX_MESSAGE;
use bytes::Bytes;
use futures::stream::BoxStream;
use kstore_informer::{Causes, Fence};
use kstore_proto::kstore::v1::kstore_client::KstoreClient;
use kstore_proto::kstore::v1::{self as pb, FieldValidation};
use std::pin::Pin;
use std::sync::Arc;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataValue};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Transport =
    BoxCloneSyncService<http::Request<tonic::body::Body>, http::Response<tonic::body::Body>, ServiceError>;

/// The batches of one watch.
pub(crate) type Batches = BoxStream<'static, Result<pb::WatchBatch, tonic::Status>>;

/// The opening of a watch.
pub(crate) type OpenFuture = Pin<Box<dyn Future<Output = Result<Batches, tonic::Status>> + Send>>;

/// The function that opens watches in the server's own process.
pub(crate) type Feed = Arc<dyn Fn(tonic::Request<pb::WatchRequest>) -> OpenFuture + Send + Sync>;

/// The error of a service that returned no response.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ServiceError(#[source] BoxError);

/// A client of the API. Its agent names the program in provenance and as field manager. Cheap to clone; clones share the
/// connection.
#[derive(Clone)]
pub struct Client {
    pub(crate) transport: Transport,
    agent: Option<MetadataValue<Ascii>>,
    causes: Option<MetadataValue<Ascii>>,
    fence: Option<MetadataValue<Ascii>>,
    /// How the server treats unknown and duplicate fields in written objects.
    pub(crate) fields: FieldValidation,
    /// The in-process opener of watches; `None`: a gRPC call opens them.
    pub(crate) feed: Option<Feed>,
    /// Whether the server reports the progress of watches as rarely as Kubernetes' bookmarks come.
    pub(crate) has_rare_progress: bool,
}

impl Client {
    /// A client over a service: an apiserver in this process without a socket, or a connection. `agent` names
    /// the component in provenance and is the field manager of its writes.
    pub fn over<S, B>(service: S, agent: &str) -> Self
    where
        S: Service<http::Request<tonic::body::Body>, Response = http::Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = service
            .map_response(|response: http::Response<B>| response.map(tonic::body::Body::new))
            .map_err(|error| ServiceError(error.into()));
        Self {
            transport: BoxCloneSyncService::new(service),
            agent: agent_value(agent),
            causes: None,
            fence: None,
            fields: FieldValidation::Ignore,
            feed: None,
            has_rare_progress: false,
        }
    }

    /// The same connection for another component.
    #[must_use]
    pub fn agent(&self, agent: &str) -> Self {
        Self { agent: agent_value(agent), ..self.clone() }
    }

    /// The same client over another transport, without the in-process opener of watches.
    pub(crate) fn with_transport<S>(&self, service: S) -> Self
    where
        S: Service<http::Request<tonic::body::Body>, Response = http::Response<tonic::body::Body>>,
        S: Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        let service = service.map_err(|error| ServiceError(error.into()));
        Self { transport: BoxCloneSyncService::new(service), feed: None, ..self.clone() }
    }

    /// The same client with these causes: provenance records that these revisions led to its writes.
    #[must_use]
    pub fn causes(&self, causes: &Causes) -> Self {
        let causes = match causes.is_empty() {
            true => None,
            false => causes.to_string().try_into().ok(),
        };
        Self { causes, ..self.clone() }
    }

    /// The same client with a fencing token. The server refuses its writes with a conflict
    /// ([`ApiError::is_fenced`]) unless the lease confirms, at the revision of the write, that this term of
    /// leadership has not ended. Reads are not affected.
    #[must_use]
    pub fn fence(&self, fence: &Fence) -> Self {
        let value = fence.to_string().try_into().expect("a fence is printed as plain ASCII");
        Self { fence: Some(value), ..self.clone() }
    }

    /// The same client, whose writes the server refuses if an object has unknown or duplicate fields, as with
    /// `kubectl --validate=strict`. Other clients' unknown fields are dropped.
    #[must_use]
    pub fn strict_fields(&self) -> Self {
        Self { fields: FieldValidation::Strict, ..self.clone() }
    }

    /// The header `user-agent` of the client's requests.
    pub(crate) fn agent_header(&self) -> Option<http::HeaderValue> {
        http::HeaderValue::from_bytes(self.agent.as_ref()?.as_encoded_bytes()).ok()
    }

    pub(crate) fn without_fence(&self) -> Self {
        Self { fence: None, ..self.clone() }
    }

    pub(crate) fn grpc(&self) -> KstoreClient<Transport> {
        KstoreClient::new(self.transport.clone())
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// A gRPC request with the client's metadata: agent, causes and fence.
    pub(crate) fn request<M>(&self, message: M) -> Request<M> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        if let Some(agent) = &self.agent {
            metadata.insert("user-agent", agent.clone());
        }
        if let Some(causes) = &self.causes {
            metadata.insert("kstore-cause", causes.clone());
        }
        if let Some(fence) = &self.fence {
            metadata.insert("kstore-fence", fence.clone());
        }
        request
    }
}

/// The header with the agent. The server takes the text up to the first '/' as field manager; a transport may
/// append its own name after it.
fn agent_value(agent: &str) -> Option<MetadataValue<Ascii>> {
    let text = match agent.contains('/') {
        true => agent.to_owned(),
        false => format!("{agent}/kstore"),
    };
    text.try_into().ok()
}

/// Runs a call with the timeout [`CALL_TIMEOUT`](crate::limits::CALL_TIMEOUT).
pub(crate) async fn bounded<T>(
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(crate::limits::CALL_TIMEOUT, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(status.into()),
        Err(_) => Err(ApiError::timeout()),
    }
}

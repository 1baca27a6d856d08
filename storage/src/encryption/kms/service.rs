//! [`Service`]: calls of a key management service over its Unix socket, each with a time limit.

use super::KmsConfig;
use super::envelope::SealedSeed;
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use kstore_nondet::Rng;
use kstore_proto::kms::v2::key_management_service_client::KeyManagementServiceClient;
use kstore_proto::kms::v2::{DecryptRequest, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse};
use std::time::Duration;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// The largest answer: every field of a valid one is far smaller.
const ANSWER_BYTES: usize = 256 * 1024;

/// A client of one service. Connects when it is first called, and again after a failure.
#[derive(Clone)]
pub(super) struct Service {
    client: KeyManagementServiceClient<Channel>,
    timeout: Duration,
    /// Source of the identifiers of calls.
    rng: Rng,
}

impl Service {
    /// A client of the configured service. Must be called inside a tokio runtime.
    pub(super) fn new(config: &KmsConfig, rng: Rng) -> Self {
        let socket = config.endpoint.socket.clone();
        let connect = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        let client = KeyManagementServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES);
        Self { client, timeout: config.timeout, rng }
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, Status> {
        let mut client = self.client.clone();
        self.limited(client.status(StatusRequest {})).await
    }

    /// Encrypts a seed with the service's current key.
    pub(super) async fn encrypt(&self, seed: Bytes) -> Result<EncryptResponse, Status> {
        let (mut client, uid) = (self.client.clone(), self.rng.uuid());
        self.limited(client.encrypt(EncryptRequest { plaintext: seed, uid })).await
    }

    /// Decrypts a seed.
    pub(super) async fn decrypt(&self, sealed: &SealedSeed) -> Result<Bytes, Status> {
        let (mut client, uid) = (self.client.clone(), self.rng.uuid());
        let request = DecryptRequest {
            ciphertext: sealed.source.clone(),
            uid,
            key_id: sealed.key_id.clone(),
            annotations: sealed.annotations.clone(),
        };
        Ok(self.limited(client.decrypt(request)).await?.plaintext)
    }

    async fn limited<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
        }
    }
}

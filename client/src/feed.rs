//! In-process watches: a feed passes the server's batches on as values. Components in the server's
//! process thus share its bytes and save encoding, decoding and framing. All other calls use the transport.

use crate::client::{Batches, OpenFuture, bounded};
use crate::limits::{IN_PROCESS_PROGRESS, KUBE_PROGRESS, WATCH_PROGRESS};
use crate::{ApiError, Client};
use futures::StreamExt;
use kstore_proto::ProgressDemand;
use kstore_proto::kstore::v1 as pb;
use std::sync::Arc;
use std::time::Duration;

impl Client {
    /// The same client with `feed` as the opener of its watches.
    ///
    /// `feed` must return what the server's `Watch` would send: it authenticates and authorizes the caller,
    /// ends the watch of a slow reader, and returns the same statuses. The request carries the metadata of a
    /// call and a [`ProgressDemand`] as an extension.
    #[must_use]
    pub fn with_feed<F, Fut, S>(&self, feed: F) -> Self
    where
        F: Fn(tonic::Request<pb::WatchRequest>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<S, tonic::Status>> + Send + 'static,
        S: futures::Stream<Item = Result<pb::WatchBatch, tonic::Status>> + Send + 'static,
    {
        let feed = move |request| {
            let opening = feed(request);
            Box::pin(async move { opening.await.map(StreamExt::boxed) }) as OpenFuture
        };
        let mut client = self.clone();
        client.feed = Some(Arc::new(feed));
        client
    }

    /// The maximum interval of progress messages on an idle watch.
    pub(crate) fn progress_every(&self) -> Duration {
        match (self.feed.is_some(), self.has_rare_progress) {
            (true, _) => IN_PROCESS_PROGRESS,
            (false, true) => KUBE_PROGRESS,
            (false, false) => WATCH_PROGRESS,
        }
    }

    /// Opens a watch, through the feed if the client has one. A feed sends progress when `demand` rises.
    pub(crate) async fn open_watch(
        &self,
        message: pb::WatchRequest,
        demand: &ProgressDemand,
    ) -> Result<Batches, ApiError> {
        let mut request = self.request(message);
        match &self.feed {
            Some(feed) => {
                // Not for a service, even one in this process: its client expects frequent progress.
                request.extensions_mut().insert(demand.clone());
                bounded(async { Ok(tonic::Response::new(feed(request).await?)) }).await
            }
            None => {
                let mut grpc = self.grpc();
                Ok(bounded(grpc.watch(request)).await?.boxed())
            }
        }
    }
}

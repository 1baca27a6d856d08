//! The Watch service: many watches on one stream. `session` is a stream, `subscription` one watch on it, `progress` decides
//! when the stream may say that nothing is outstanding, `fragment` cuts responses that are too large for a client.

mod fragment;
mod progress;
mod session;
mod subscription;

use std::pin::Pin;

use futures::stream::{self, Stream};
use kstore_proto::etcd::etcdserverpb::{WatchRequest, WatchResponse, watch_server::Watch};
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::node::Node;
use session::Session;

#[async_trait]
impl Watch for Node {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send + 'static>>;

    /// The stream is only driven as fast as the client reads; what it does not read waits in the store's bounded queues.
    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let session = Session::new(self.clone(), request.into_inner());
        let responses = stream::unfold(session, |mut session| async {
            let response = session.next().await?;
            Some((response, session))
        });
        Ok(Response::new(Box::pin(responses)))
    }
}

//! [`Link`]: a connection that is made again when it is lost. What was under way then has no answer.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

/// Between two attempts to connect. A server that was killed is back in a moment.
const RETRY: Duration = Duration::from_millis(20);

/// How long one attempt may take.
const CONNECT: Duration = Duration::from_secs(1);

/// A connection of one client.
#[derive(Debug)]
pub(super) struct Link {
    endpoint: Endpoint,
    channel: Option<Channel>,
}

impl Link {
    pub(super) fn new(url: &str) -> Result<Self, tonic::transport::Error> {
        let endpoint = Endpoint::new(url.to_owned())?.connect_timeout(CONNECT).tcp_nodelay(true);
        Ok(Self { endpoint, channel: None })
    }

    /// The connection, as soon as there is one; none if it is time to stop.
    pub(super) async fn channel(&mut self, stop: &CancellationToken) -> Option<Channel> {
        while self.channel.is_none() {
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                connected = self.endpoint.connect() => self.channel = connected.ok(),
            }
            if self.channel.is_none() {
                tokio::time::sleep(RETRY).await;
            }
        }
        self.channel.clone()
    }

    /// The connection is no good any more.
    pub(super) fn lost(&mut self) {
        self.channel = None;
    }
}

//! [`Link`]: a connection that reconnects. Calls in progress at a disconnect have an unknown outcome.

use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

/// Pause between two attempts to connect. A killed server restarts quickly.
const RETRY: Duration = Duration::from_millis(20);

/// Timeout of one attempt to connect.
const CONNECT: Duration = Duration::from_secs(1);

/// The connection of one client.
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

    /// Waits for a connection; none if the workload stops.
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

    /// Drops the broken connection.
    pub(super) fn lost(&mut self) {
        self.channel = None;
    }
}

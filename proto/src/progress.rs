//! [`ProgressDemand`]: how a client in the server's process requests progress of a watch.

use tokio::sync::watch;

/// The newest revision that a reader of a watch in the server's process waits for. An extension of the request
/// that opens the watch; clones share the revision.
///
/// The server of a watch with this extension sends periodic progress rarely, because there is no connection
/// that could break. It sends progress at once when the demand rises above what it has sent, and frequently
/// until it has sent the demanded revision.
#[derive(Clone, Debug)]
pub struct ProgressDemand(watch::Sender<i64>);

impl Default for ProgressDemand {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl ProgressDemand {
    /// Demands `revision`. Demands of older revisions have no effect.
    pub fn demand(&self, revision: i64) {
        self.0.send_if_modified(|demanded| {
            let is_newer = revision > *demanded;
            *demanded = revision.max(*demanded);
            is_newer
        });
    }

    /// The newest demanded revision; 0 without a demand.
    pub fn newest(&self) -> i64 {
        *self.0.borrow()
    }

    /// Waits until a revision above `revision` is demanded, and returns it. Cancel-safe.
    pub async fn above(&self, revision: i64) -> i64 {
        let mut demanded = self.0.subscribe();
        let newest = demanded.wait_for(|newest| *newest > revision).await;
        *newest.expect("the sender is in self")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_only_rises_and_wakes_its_waiter() {
        let demand = ProgressDemand::default();
        let waiter = demand.clone();
        let mut above = std::pin::pin!(waiter.above(4));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        demand.demand(4);
        assert!(above.as_mut().poll(&mut context).is_pending());
        demand.demand(7);
        demand.demand(5);
        assert_eq!(demand.newest(), 7);
        assert!(above.as_mut().poll(&mut context) == std::task::Poll::Ready(7));
    }
}

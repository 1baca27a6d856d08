//! [`ClusterPage`]: the page of the cluster of `run`, on loopback.

use crate::args::PageTime;
use crate::shutdown::Signals;
use crate::ui::LocalProxy;
use crate::wiring::Cluster;
use anyhow::Context;
use kstore_nondet::Nondet;

/// The page of a running cluster.
pub(super) struct ClusterPage {
    proxy: LocalProxy,
    stays: bool,
}

impl ClusterPage {
    /// Serves the page and prints its link; `None`: no page is wanted.
    ///
    /// # Errors
    /// There is no port for it.
    pub(super) async fn start(cluster: &Cluster, wanted: Option<PageTime>) -> anyhow::Result<Option<Self>> {
        let Some(wanted) = wanted else { return Ok(None) };
        let client = cluster.client().context("`run` has an apiserver")?.agent("kstore-ui");
        let proxy = LocalProxy::start(client, 0, &Nondet::real()).await?;
        eprintln!(
            "kstore-server run: the page of the cluster, for one browser, within a minute: {}",
            proxy.link()
        );
        Ok(Some(Self { proxy, stays: wanted == PageTime::Stay }))
    }

    /// Waits for a signal if the cluster is to stay after the command, and nothing has asked this process to end.
    pub(super) async fn stay(self, signals: &mut Signals) {
        if self.stays && !signals.has_terminated() {
            let link = self.proxy.new_link();
            eprintln!(
                "kstore-server run: the command has ended, and the cluster stays until Ctrl-C; a new link to its page: {link}"
            );
            signals.next().await;
        }
    }
}

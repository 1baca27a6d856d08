//! The start of a whole cluster in this process.

use super::rest::Rest;
use super::virtual_time::{SEED, in_virtual_time};
use kstore_testing::Cluster;

/// From nothing until the apiserver is ready and controllers, scheduler and three nodes have no more to do.
pub(super) fn run(_: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let cluster = Cluster::builder().virtual_time(SEED).nodes(3).start().await;
        cluster.settled().await?;
        Rest::new(cluster.service()).get("/readyz").await?;
        Ok(())
    })
}

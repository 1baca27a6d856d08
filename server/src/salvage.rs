//! `--salvage`: a start on a damaged data directory, with what can be read of it. Not the work, which is the store's
//! (`maintenance::rescue`), and not `store salvage`, which only writes a file.

use anyhow::Context;
use kstore_nondet::Nondet;
use kstore_store::maintenance::{self, RescueReport};
use kstore_store::{Config, OpenError};
use tracing::{info, warn};

/// Puts what can be read in the place of a store that could not be opened because of `error`, and says what was lost.
pub(crate) async fn replace(config: &Config, error: &OpenError, nondet: &Nondet) -> anyhow::Result<()> {
    let dir = config.dir.clone().context("a store in memory cannot be damaged")?;
    warn!(%error, "the store is damaged; what can be read of it is kept");
    let (engine, rng) = (config.engine, nondet.rng.fork("salvage"));
    let work = tokio::task::spawn_blocking(move || {
        let mut said = 0;
        maintenance::rescue(&dir, engine, &rng, &mut |done, total| {
            let tenths = done.saturating_mul(10) / total.max(1);
            if tenths != said {
                said = tenths;
                info!(percent = tenths * 10, "salvaging");
            }
        })
    });
    let RescueReport { salvaged, restored, damaged } = work.await??;
    warn!(
        revision = restored.revision.0,
        kept_upto = salvaged.snapshot.revision.0,
        newest_known = salvaged.newest.0,
        lost_records = salvaged.holes,
        damaged = %damaged.display(),
        "the store goes on with what could be read; the damaged files were moved"
    );
    for problem in salvaged.problems {
        warn!(%problem, "what is damaged");
    }
    Ok(())
}

//! `--salvage`: starts on a damaged data directory with the readable part of its data. `maintenance::rescue`
//! of the store does the work. `store salvage` differs: it only writes a file.

use anyhow::Context;
use kstore_nondet::Nondet;
use kstore_store::maintenance::{self, RescueReport};
use kstore_store::{Config, OpenError};
use tracing::{info, warn};

/// Lost versions, and problems of files, that are logged one by one.
const LOGGED: usize = 1_000;

/// Replaces a store that could not be opened because of `error` by its readable part, and logs what was lost.
pub(crate) async fn replace(config: &Config, error: &OpenError, nondet: &Nondet) -> anyhow::Result<()> {
    let dir = config.dir.clone().context("a store in memory cannot be damaged")?;
    warn!(%error, "the store is damaged; its readable part is salvaged");
    let (engine, rng) = (config.engine, nondet.rng.fork("salvage"));
    let work = tokio::task::spawn_blocking(move || {
        let mut logged = 0;
        maintenance::rescue(&dir, engine, &rng, &mut |done, total| {
            let tenths = done.saturating_mul(10) / total.max(1);
            if tenths != logged {
                logged = tenths;
                info!(percent = tenths * 10, "salvaging");
            }
        })
    });
    let RescueReport { salvaged, restored, damaged } = work.await??;
    let lost = &salvaged.lost;
    warn!(
        records = salvaged.snapshot.records,
        lost_revisions = %lost.revisions_text(),
        unknown_places = lost.unknown,
        revision = restored.revision.0,
        damaged = %damaged.display(),
        "the store continues with everything that can be read; the damaged files were moved"
    );
    for version in lost.versions.iter().take(LOGGED) {
        warn!("lost: {version}");
    }
    if let Some(more) = lost.versions.len().checked_sub(LOGGED + 1) {
        warn!("and {} more lost versions; `kstore-server store salvage` lists them", more + 1);
    }
    for problem in salvaged.problems.iter().take(LOGGED) {
        warn!(%problem, "damaged file");
    }
    Ok(())
}

//! `kstore-server replay`: a read-only server whose newest revision moves through those of a recording, at a multiple of their speed.
//! `feed` writes the recorded revisions into the store of the server, `pace` says when.

mod feed;
mod pace;

use crate::args::{Api, Cli, Engine, ReplayArgs, Storage};
use crate::at;
use crate::import::UnusableSource;
use crate::runtime;
use crate::source_copy::SourceCopy;
use crate::wiring::{self, Cluster};
use anyhow::{Context as _, bail};
use feed::ReplayClock;
use kstore_nondet::Nondet;
use kstore_store::{Config, EngineKind, Revision, Store};
use pace::Pace;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// Bytes of old states that may be read at once: the state at the first revision is read as a whole.
const READ_BYTES: usize = 1 << 40;

/// Replays a recording until a signal, or for a command until it ends.
pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let copy = SourceCopy::of(&args.recording).map_err(|error| UnusableSource(format!("{error:#}")))?;
    if args.command.is_empty() {
        return wiring::serve_started(start(&copy, args));
    }
    runtime::block_on(async {
        let cluster = start(&copy, args).await?;
        let ended = at::execute(&args.command, cluster.admin_kubeconfig()).await;
        cluster.stop().await;
        ended
    })
}

/// Starts a server with the first state, whose later revisions follow.
async fn start(copy: &SourceCopy, args: &ReplayArgs) -> anyhow::Result<Cluster> {
    let replay = Replay::prepare(copy, args).await?;
    let words = ["kstore-server", "--read-only", "--data-dir"].map(OsString::from);
    let words = words.into_iter().chain([replay.dir.clone().into_os_string()]);
    let mut config = Cli::try_parse_from(words).context("the flags of the server")?.serve.into_config()?;
    let Api::Here(api) = &mut config.api else { bail!("a replay has an API server") };
    (api.is_replay, api.listen, api.write_kubeconfig) =
        (true, args.listen.clone(), args.write_kubeconfig.clone());
    let cluster = wiring::start_with(&config, replay.clock.nondet().clone()).await?;
    let store = cluster.store().cloned().context("a replay has a store")?;
    let pace = Pace::new(args.speed, feed::time_of(&replay.source, replay.from));
    cluster.run_loop("replay", |stop| replay.run(store, pace, stop));
    Ok(cluster)
}

/// A recording, and the range of its revisions that is replayed.
struct Replay {
    source: Store,
    from: Revision,
    upto: Revision,
    clock: ReplayClock,
    /// The data directory of the server.
    dir: PathBuf,
}

impl Replay {
    /// Opens a copy of the recording, and creates a store with its first state beside it.
    ///
    /// # Errors
    /// The copy cannot be read, or does not have the revisions.
    async fn prepare(copy: &SourceCopy, args: &ReplayArgs) -> anyhow::Result<Self> {
        let Storage::Disk { dir, engine, .. } = copy.storage() else { bail!("a copy is on disk") };
        let mut config = Config::durable(dir);
        config.limits.read_bytes = READ_BYTES;
        config.engine = match engine {
            Engine::Segments => EngineKind::Segments,
            Engine::Sled => EngineKind::Sled,
        };
        let source = Store::open(config, Nondet::real()).await.context("cannot open the recording")?;
        let (oldest, newest) = (source.compacted().max(Revision::FIRST), source.revision());
        let (from, upto) = chosen_range(args, oldest, newest)?;
        let (clock, dir) = (ReplayClock::at(feed::time_of(&source, from)), copy.folder().join("replay"));
        feed::create_state(&source, from, &dir, clock.nondet())?;
        Ok(Self { source, from, upto, clock, dir })
    }

    /// Writes the later revisions into the store of the server, and then waits for the end.
    async fn run(self, store: Store, pace: Pace, stop: CancellationToken) {
        let fed = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            fed = feed::feed(&self.source, (self.from, self.upto), (&store, &self.clock), pace) => fed,
        };
        match fed {
            Ok(()) => stop.cancelled().await,
            // The task ends, and with it the server.
            Err(failed) => error!("the replay ended: {failed:#}"),
        }
        self.source.close().await;
    }
}

/// The revisions that are replayed: all, unless flags name others.
fn chosen_range(
    args: &ReplayArgs,
    oldest: Revision,
    newest: Revision,
) -> Result<(Revision, Revision), UnusableSource> {
    let from = args.from.map_or(oldest, Revision);
    let upto = args.to.map_or(newest, Revision);
    if from < oldest || upto > newest || from > upto {
        return Err(UnusableSource(format!(
            "{} has the revisions {oldest} to {newest}, and none from {from} to {upto}",
            args.recording.display()
        )));
    }
    Ok((from, upto))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_that_a_recording_does_not_have_are_refused_with_those_that_it_has() {
        let range = |from, to| {
            let args = ReplayArgs { from, to, recording: "rec".into(), ..ReplayArgs::default() };
            chosen_range(&args, Revision(10), Revision(20)).map_err(|error| error.to_string())
        };
        assert_eq!(range(None, None), Ok((Revision(10), Revision(20))));
        assert_eq!(range(Some(12), Some(12)), Ok((Revision(12), Revision(12))));
        for (from, to) in [(Some(9), None), (None, Some(21)), (Some(15), Some(14))] {
            let refused = range(from, to).unwrap_err();
            assert!(refused.starts_with("rec has the revisions 10 to 20"), "{refused}");
        }
    }
}

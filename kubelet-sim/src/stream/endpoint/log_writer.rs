//! Writes the log of a container into the file from which its client reads it, in the form of CRI: `TIME stdout F text`.

use super::Endpoint;
use super::table::Begun;
use crate::chosen_run::{Chosen, find};
use crate::limits::LOG_FILE_BYTES;
use crate::stream::log::chosen_log;
use crate::stream::{Feed, Outputs, Snapshot};
use jiff::Timestamp;
use kstore_container_sim::time::between;
use kstore_container_sim::{ContainerRun, Log, LogQuery, LogReader, LogStep};
use kstore_nondet::Clock;
use std::fs::{File, OpenOptions};
use std::io::{Result, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The log of one run of a container.
pub(super) struct LogWriter {
    path: PathBuf,
    feed: Feed,
    outputs: Arc<Outputs>,
    chosen: Chosen,
    clock: Clock,
    reopen: Arc<Notify>,
    /// The endpoint ends, or the sandbox is removed.
    stops: [CancellationToken; 2],
}

impl LogWriter {
    /// The log of a run, if its client wants one.
    pub(super) fn of(endpoint: &Endpoint, id: &str, begun: &Begun) -> Option<Self> {
        let path = endpoint.table().containers.get(id)?.status.log_path.clone();
        if path.is_empty() {
            return None;
        }
        let started_at = endpoint.streams.clock.now();
        let run = ContainerRun { id: begun.run.clone(), started_at, ended: None };
        Some(Self {
            path: path.into(),
            feed: Arc::clone(&begun.feed),
            outputs: Arc::clone(&begun.outputs),
            chosen: Chosen { container: begun.index, run },
            clock: endpoint.streams.clock,
            reopen: Arc::clone(&begun.reopen),
            stops: [endpoint.tasks.stop().clone(), begun.stop.clone()],
        })
    }

    /// Writes until the run has ended and all of its log is written.
    pub(super) async fn run(mut self) {
        let path = self.path.clone();
        if let Err(error) = self.follow().await {
            tracing::warn!(%error, path = %path.display(), "the log of a container cannot be written");
        }
    }

    async fn follow(&mut self) -> Result<()> {
        let (mut seen, mut snapshot) = self.feed.get();
        let query = LogQuery { timestamps: true, ..LogQuery::default() };
        let mut reader = LogReader::new(&query, &self.log(&snapshot), Timestamp::MIN);
        let mut file = open(&self.path).await?;
        loop {
            let printed = self.outputs.seen();
            let log = self.log(&snapshot);
            let now = self.clock.now();
            match reader.step(&log, now) {
                LogStep::Send(channel, text) => {
                    let lines = lines(channel, &text);
                    file = write(file, self.path.clone(), lines).await?;
                    continue;
                }
                LogStep::Enough => return Ok(()),
                LogStep::Wait if log.ended() || snapshot.gone => return Ok(()),
                LogStep::Wait => {}
            }
            let next = reader.next(&log, now).map(|at| between(now, at));
            let [ends, removed] = &self.stops;
            tokio::select! {
                biased;
                () = ends.cancelled() => return Ok(()),
                () = removed.cancelled() => return Ok(()),
                () = self.reopen.notified() => file = open(&self.path).await?,
                () = self.outputs.after(printed) => {}
                newer = self.feed.after(seen) => (seen, snapshot) = newer,
                () = tokio::time::sleep(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    }

    /// The log of the run, as far as it has come.
    fn log(&mut self, snapshot: &Snapshot) -> Log {
        match find(&snapshot.machine.containers[self.chosen.container], &self.chosen.run.id) {
            Some(run) => self.chosen.run = run,
            None => {
                let at = self.chosen.run.started_at;
                self.chosen.run.ended.get_or_insert((at, 0));
            }
        }
        chosen_log(&self.chosen, snapshot)
    }
}

/// The lines of a log file for lines that begin with their time.
fn lines(channel: u32, text: &str) -> Vec<u8> {
    let stream = if channel == 2 { "stderr" } else { "stdout" };
    let mut all = Vec::with_capacity(text.len() + 16);
    for line in text.lines() {
        let (time, rest) = line.split_once(' ').unwrap_or((line, ""));
        all.extend_from_slice(format!("{time} {stream} F {rest}\n").as_bytes());
    }
    all
}

/// Opens the file at its end, with its folder.
async fn open(path: &Path) -> Result<File> {
    let path = path.to_owned();
    blocking(move || {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        OpenOptions::new().create(true).append(true).open(&path)
    })
    .await
}

/// Writes lines. A file that a client does not rotate begins anew at a bound; its old part has the name of an old one.
async fn write(mut file: File, path: PathBuf, lines: Vec<u8>) -> Result<File> {
    blocking(move || {
        if file.metadata()?.len() > LOG_FILE_BYTES {
            let mut old = path.clone().into_os_string();
            old.push(".1");
            std::fs::rename(&path, old)?;
            file = OpenOptions::new().create(true).append(true).open(&path)?;
        }
        file.write_all(&lines)?;
        Ok(file)
    })
    .await
}

async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(job).await.map_err(|error| std::io::Error::other(error.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_form_of_container_runtimes() {
        let text = "2026-10-06T00:17:09.669794202Z one two\n2026-10-06T00:17:10.000000000Z \n";
        let expected =
            "2026-10-06T00:17:09.669794202Z stderr F one two\n2026-10-06T00:17:10.000000000Z stderr F \n";
        assert_eq!(String::from_utf8(lines(2, text)).unwrap(), expected);
    }
}

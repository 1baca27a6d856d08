//! Follows a container of a runtime to its end: its log, the tokens in its volumes, and how it ends.

use super::{RealNode, runtime_id, time_of};
use crate::limits::{HOST_OUTPUT_WORK, RUNTIME_LOG_BYTES, RUNTIME_LOG_LOOK};
use crate::plan::cri::log_path;
use crate::stream::host::last_message;
use crate::stream::program::Ending;
use crate::stream::runner::ContainerBudget;
use crate::stream::{Feed, Launch, Snapshot, Streams};
use kstore_cri::client::{ContainerReport, Phase};
use kstore_cri::log_file::LogFile;
use kstore_cri::log_line::LogLine;
use std::pin::pin;
use std::sync::Arc;

/// The runtime's word for a container that was ended for want of memory.
const OUT_OF_MEMORY: &str = "OOMKilled";
/// The exit code of a container whose runtime does not know how it ended.
const UNKNOWN: u8 = 137;

impl Streams {
    /// Follows the run of a container to its end, and says how it ended; `None` if the run is none of this node.
    pub(in crate::stream) async fn follow_real(&self, feed: &Feed, launch: &Launch) -> Option<Ending> {
        let real = self.real.clone()?;
        let (_, snapshot) = feed.get();
        let id = runtime_id(&launch.run);
        let run = snapshot.machine.containers.get(launch.index)?.restarts;
        let folder = real.folder().logs(&launch.uid).ok()?;
        let mut log = LogFile::new(folder.join(log_path(&launch.container, run)));
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let budget = snapshot.disks.budget(&launch.container, &namespace);
        if !snapshot.disks.shows_objects() {
            // The container was started before this process: its volumes are to be kept up to date from now on.
            let _ = self.environment(&snapshot, &launch.container, &launch.run, &[]).await;
        }
        let (mut seen, _) = real.running.get();
        let mut renewal = pin!(self.renewal(feed));
        let report = loop {
            self.pass_log_on(&mut log, launch, &budget).await;
            if log.length() > RUNTIME_LOG_BYTES && log.rotate().is_ok() {
                // Until then the runtime writes to the renamed file, which is read to its end.
                if let Err(error) = real.client.reopen_log(id).await {
                    tracing::warn!(%error, id, "the log of a container is not rotated");
                }
            }
            tokio::select! {
                biased;
                (number, running) = real.running.after(seen) => {
                    seen = number;
                    if !running.contains(id)
                        && let Some(report) = real.ended(id).await
                    {
                        break report;
                    }
                }
                () = &mut renewal => {
                    Box::pin(self.clone().refresh(Arc::clone(feed))).await;
                    renewal.set(self.renewal(feed));
                }
                () = tokio::time::sleep(RUNTIME_LOG_LOOK) => {}
            }
        };
        while self.pass_log_on(&mut log, launch, &budget).await {}
        self.keep_last_words(&real, (&*snapshot, launch), &report);
        let code = u8::try_from(report.exit_code).unwrap_or(UNKNOWN);
        let oom = report.reason == OUT_OF_MEMORY;
        Some(Ending { code, oom, at: time_of(report.finished_at) })
    }

    /// Adds what the container has logged since the last call to its log; false if there was nothing.
    async fn pass_log_on(&self, log: &mut LogFile, launch: &Launch, budget: &ContainerBudget) -> bool {
        let lines = match log.read() {
            Ok(lines) => lines,
            Err(error) => {
                tracing::warn!(%error, file = %log.path().display(), "the log of a container cannot be read");
                return false;
            }
        };
        let mut bytes = 0;
        let is_empty = lines.is_empty();
        for line in lines {
            bytes += line.text.len() as u64;
            self.add_line(launch, line);
        }
        budget.pay(bytes * HOST_OUTPUT_WORK).await;
        !is_empty
    }

    fn add_line(&self, launch: &Launch, line: LogLine) {
        let at = line.at.parse().unwrap_or_else(|_| self.clock.now());
        let is_error = line.is_error;
        launch.outputs.print(&launch.container, &launch.run, is_error, &line.printed(), at);
    }

    /// Keeps the termination message of the container, or what the runtime says about its end.
    fn keep_last_words(
        &self,
        real: &RealNode,
        (snapshot, launch): (&Snapshot, &Launch),
        report: &ContainerReport,
    ) {
        let message = last_message(real.folder(), launch).unwrap_or_default();
        let message = if message.is_empty() { report.message.clone().into_bytes() } else { message };
        if !message.is_empty() {
            self.keep_message(snapshot, launch, message);
        }
    }
}

impl RealNode {
    /// How a container ended; `None`: it runs, or the runtime does not answer.
    async fn ended(&self, id: &str) -> Option<ContainerReport> {
        match self.client.report(id).await {
            Ok(report) if report.phase == Phase::Exited => Some(report),
            Ok(_) => None,
            Err(error) if error.is_not_found() => {
                let message = "The container could not be located when the pod was terminated".to_owned();
                Some(ContainerReport { exit_code: UNKNOWN.into(), message, ..ContainerReport::default() })
            }
            Err(_) => None,
        }
    }
}

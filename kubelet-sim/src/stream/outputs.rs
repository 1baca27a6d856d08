//! The output of the commands of one pod's containers: of the current and the previous run of each container.

use super::{Console, Latest, ServerLine};
use crate::limits::LINE_BYTES;
use jiff::Timestamp;
use kstore_container_sim::{LogLine, PrintedLines};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs of a container whose output is kept: those that `kubectl logs` can request.
const RUNS: usize = 2;

/// The output of the commands of one pod.
pub(crate) struct Outputs {
    containers: Mutex<BTreeMap<String, Vec<Output>>>,
    printed: Latest<()>,
}

/// The output of one run.
struct Output {
    run: String,
    printed: Arc<PrintedLines>,
    /// The incomplete last lines of standard output and standard error.
    partial: [Vec<u8>; 2],
    /// Whether the run ended within a line.
    ends_within_line: bool,
    /// Where clients attach to its process, if that has standard streams of its own.
    console: Option<Arc<Console>>,
}

impl Default for Outputs {
    fn default() -> Self {
        Self { containers: Mutex::default(), printed: Latest::new(()) }
    }
}

impl Outputs {
    fn containers(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Output>>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a command begins.
    pub(crate) fn begin(&self, container: &str, run: &str) {
        let mut containers = self.containers();
        let runs = containers.entry(container.to_owned()).or_default();
        runs.push(Output {
            run: run.to_owned(),
            printed: Arc::default(),
            partial: Default::default(),
            ends_within_line: false,
            console: None,
        });
        let surplus = runs.len().saturating_sub(RUNS);
        runs.drain(..surplus);
    }

    /// Sets where clients attach to the process of a run that has begun.
    pub(crate) fn set_console(&self, container: &str, run: &str, console: Arc<Console>) {
        self.change(container, run, |output| output.console = Some(console));
    }

    /// Where clients attach to the process of a run.
    pub(super) fn console(&self, container: &str, run: &str) -> Option<Arc<Console>> {
        let containers = self.containers();
        containers.get(container)?.iter().find(|output| output.run == run)?.console.clone()
    }

    /// Adds a line of a server that runs no command. The first line of a run begins its output.
    pub(crate) fn log(&self, line: &ServerLine, at: Timestamp) {
        let ServerLine { container, run, is_error, line, .. } = line;
        if self.of(container, run).is_none() {
            self.begin(container, run);
        }
        self.print(container, run, *is_error, line.as_bytes(), at);
    }

    /// Adds output of the command.
    pub(super) fn print(&self, container: &str, run: &str, stderr: bool, bytes: &[u8], at: Timestamp) {
        self.change(container, run, |output| {
            for &byte in bytes {
                let partial = &mut output.partial[usize::from(stderr)];
                if byte != b'\n' {
                    partial.push(byte);
                }
                if byte == b'\n' || partial.len() >= LINE_BYTES {
                    output.finish(stderr, at);
                }
            }
        });
    }

    /// Records that the command has ended.
    pub(super) fn end(&self, container: &str, run: &str, at: Timestamp) {
        self.change(container, run, |output| {
            for stderr in [false, true] {
                if !output.partial[usize::from(stderr)].is_empty() {
                    output.ends_within_line = true;
                    output.finish(stderr, at);
                }
            }
        });
    }

    fn change(&self, container: &str, run: &str, change: impl FnOnce(&mut Output)) {
        let mut containers = self.containers();
        let output =
            containers.get_mut(container).and_then(|runs| runs.iter_mut().find(|one| one.run == run));
        if let Some(output) = output {
            change(output);
        }
        drop(containers);
        self.printed.set(());
    }

    /// The output of a run; `None` if no command of it ran in this process.
    pub(super) fn of(&self, container: &str, run: &str) -> Option<Arc<PrintedLines>> {
        let containers = self.containers();
        let output = containers.get(container)?.iter().find(|output| output.run == run)?;
        Some(Arc::clone(&output.printed))
    }

    /// Whether the run ended within a line, which its log shows as a whole one.
    pub(super) fn ends_within_line(&self, container: &str, run: &str) -> bool {
        let containers = self.containers();
        let runs = containers.get(container).map(Vec::as_slice).unwrap_or_default();
        runs.iter().any(|output| output.run == run && output.ends_within_line)
    }

    /// The sequence number of the output; it rises with each print.
    pub(super) fn seen(&self) -> u64 {
        self.printed.get().0
    }

    /// Waits until the sequence number is above `seen`.
    pub(super) async fn after(&self, seen: u64) {
        self.printed.after(seen).await;
    }
}

impl Output {
    fn finish(&mut self, stderr: bool, at: Timestamp) {
        let bytes = std::mem::take(&mut self.partial[usize::from(stderr)]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Arc::make_mut(&mut self.printed).push(LogLine { at, stderr, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_per_stream_and_the_last_two_runs_are_kept() {
        let outputs = Outputs::default();
        let at = Timestamp::UNIX_EPOCH;
        for run in ["1", "2", "3"] {
            outputs.begin("c", run);
            outputs.print("c", run, false, b"one\ntw", at);
            outputs.print("c", run, true, b"bad\n", at);
            outputs.print("c", run, false, b"o", at);
            outputs.end("c", run, at);
        }
        assert!(outputs.of("c", "1").is_none() && outputs.of("c", "2").is_some());
        let printed = outputs.of("c", "3").unwrap();
        let lines: Vec<_> = (0..printed.len()).map(|number| printed.line(number).unwrap()).collect();
        let texts: Vec<_> = lines.iter().map(|line| (line.stderr, line.text.as_str())).collect();
        assert_eq!(texts, [(false, "one"), (true, "bad"), (false, "two")]);
        assert_eq!(outputs.seen(), 12);
    }
}

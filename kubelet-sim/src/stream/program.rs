//! Main commands of containers, run by the simulated shell: one task each, while the container runs. The command's output is the
//! container's log, and its exit code is the container's.

use super::environment::expand;
use super::{Exit, Feed, ManagerMessage, Outputs, Snapshot, Streams};
use crate::chosen_run::find;
use kstore_container_sim::{Shell, ShellStep};
use kstore_informer::Key;
use std::sync::Arc;

/// The main command of a container run.
pub(crate) struct Launch {
    /// Name and namespace of the pod.
    pub(crate) pod: Key,
    pub(crate) uid: String,
    /// Index of the container in its pod.
    pub(crate) index: usize,
    /// Name of the container.
    pub(crate) container: String,
    /// ID of the run.
    pub(crate) run: String,
    /// The command and its arguments; `$(NAME)` refers to a variable of the container.
    pub(crate) argv: Vec<String>,
    /// The destination of the output.
    pub(crate) outputs: Arc<Outputs>,
}

impl Streams {
    /// Runs a command until it ends, or until its container's run ends otherwise.
    pub(crate) async fn run_program(self, feed: Feed, launch: Launch) {
        let code = tokio::select! {
            biased;
            () = ended(&feed, &launch) => None,
            code = self.execute(&feed, &launch) => code,
        };
        launch.outputs.end(&launch.container, &launch.run, self.clock.now());
        if let Some(code) = code {
            let Launch { pod, uid, container, run, .. } = launch;
            // The manager may have ended.
            let _ = self.messages.send(ManagerMessage::Exit(Exit { pod, uid, container, run, code })).await;
        }
    }

    async fn execute(&self, feed: &Feed, launch: &Launch) -> Option<u8> {
        let (_, snapshot) = feed.get();
        let environment = {
            // The semaphore is closed only at the end of the simulation.
            let _permit = self.program_starts.acquire().await.ok()?;
            self.environment(&snapshot, &launch.container, &launch.run, &launch.argv).await
        };
        let argv: Vec<String> = launch.argv.iter().map(|word| expand(word, &environment.variables)).collect();
        let mut shell = match Shell::run(environment, &argv) {
            Ok(shell) => shell,
            Err(error) => {
                let text = format!("{error}\n");
                let (container, run) = (&launch.container, &launch.run);
                launch.outputs.print(container, run, true, text.as_bytes(), self.clock.now());
                return Some(127);
            }
        };
        loop {
            match shell.step() {
                ShellStep::Print(channel, printed) => {
                    let (container, run) = (&launch.container, &launch.run);
                    launch.outputs.print(container, run, channel == 2, printed.as_ref(), self.clock.now());
                }
                ShellStep::Sleep(time) => tokio::time::sleep(time).await,
                // A main command has no standard input.
                ShellStep::Copy => {}
                ShellStep::Read => shell.input(None),
                ShellStep::ReadLine => shell.line(None),
                ShellStep::Exit(code) => return Some(code),
            }
        }
    }
}

/// Waits until the run has ended or the pod is deleted. Commands of a silent node continue.
async fn ended(feed: &Feed, launch: &Launch) {
    let runs = |snapshot: &Snapshot| {
        let run = find(&snapshot.machine.containers[launch.index], &launch.run);
        run.is_some_and(|run| run.ended.is_none())
    };
    let (mut seen, mut snapshot) = feed.get();
    while !snapshot.gone && runs(&snapshot) {
        (seen, snapshot) = feed.after(seen).await;
    }
}

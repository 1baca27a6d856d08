//! Commands of containers, run by the simulated shell: a task for each, as long as its container runs. What it prints becomes the
//! container's log; when it ends, the container ends with its code.

use super::environment::expand;
use super::{Exit, Feed, Outputs, Snapshot, Streams, Word};
use crate::chosen_run::find;
use kstore_container_sim::{Shell, ShellStep};
use kstore_informer::Key;
use std::sync::Arc;

/// A command to run.
pub(crate) struct Launch {
    /// Its pod.
    pub(crate) pod: Key,
    /// Its pod's uid.
    pub(crate) uid: String,
    /// The place of its container.
    pub(crate) index: usize,
    /// The name of its container.
    pub(crate) container: String,
    /// The container's run.
    pub(crate) run: String,
    /// The words of the command, in which `$(NAME)` means a variable of the container.
    pub(crate) argv: Vec<String>,
    /// Where it prints.
    pub(crate) outputs: Arc<Outputs>,
}

impl Streams {
    /// Runs a command to its end, or until its container's run ends otherwise.
    pub(crate) async fn run_program(self, feed: Feed, launch: Launch) {
        let code = tokio::select! {
            biased;
            () = ended(&feed, &launch) => None,
            code = self.execute(&feed, &launch) => code,
        };
        launch.outputs.end(&launch.container, &launch.run, self.clock.now());
        if let Some(code) = code {
            let Launch { pod, uid, container, run, .. } = launch;
            // Nobody hears it if the simulation has ended.
            let _ = self.words.send(Word::Exit(Exit { pod, uid, container, run, code })).await;
        }
    }

    async fn execute(&self, feed: &Feed, launch: &Launch) -> Option<u8> {
        let (_, snapshot) = feed.get();
        let environment = {
            // Closed only with the simulation.
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
                // Nobody types: its input has ended before it began.
                ShellStep::Copy => {}
                ShellStep::Read => shell.input(None),
                ShellStep::ReadLine => shell.line(None),
                ShellStep::Exit(code) => return Some(code),
            }
        }
    }
}

/// Waits until the run has ended or the pod is gone. A node that falls silent runs on.
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

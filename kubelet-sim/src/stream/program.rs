//! Main commands of containers, run by the simulated shell: one task each, while the container runs. The command's output is the
//! container's log, and its exit code is the container's.

use super::environment::{TooLarge, expand_all};
use super::network::Asker;
use super::{Exit, Feed, ManagerMessage, Outputs, Snapshot, Streams};
use crate::chosen_run::find;
use crate::pod::container::Phase;
use jiff::Timestamp;
use kstore_container_sim::ShellStep;
use kstore_host_runtime::MappedProgram;
use kstore_informer::Key;
use std::sync::Arc;
use tokio::time::Instant;

/// SIGTERM.
pub(super) const TERM: u8 = 15;

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
    /// The program of this machine that runs instead.
    pub(crate) program: Option<Arc<MappedProgram>>,
    /// Whether a container runtime runs it.
    pub(crate) is_real: bool,
    /// The destination of the output.
    pub(crate) outputs: Arc<Outputs>,
}

/// How the main process of a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) code: u8,
    /// Whether it was killed for want of memory.
    pub(super) oom: bool,
    /// When it ended; `None`: now.
    pub(super) at: Option<Timestamp>,
}

impl Streams {
    /// Runs a command until it ends, or until its container's run ends otherwise.
    pub(crate) async fn run_program(self, feed: Feed, launch: Launch) {
        let now = |(code, oom)| Ending { code, oom, at: None };
        let is_shell = launch.program.is_none() && !launch.is_real;
        let ending = tokio::select! {
            biased;
            () = ended(&feed, launch.index, &launch.run) => None,
            code = self.execute(&feed, &launch), if is_shell => code.map(now),
            code = Box::pin(self.run_host_program(&feed, &launch)), if launch.program.is_some() => code.map(now),
            ending = Box::pin(self.follow_real(&feed, &launch)), if launch.is_real => ending,
        };
        launch.outputs.end(&launch.container, &launch.run, self.clock.now());
        if let Some(Ending { code, oom, at }) = ending {
            let Launch { pod, uid, container, run, .. } = launch;
            let exit = Exit { pod, uid, container, run, code, oom, at };
            // The manager may have ended.
            let _ = self.messages.send(ManagerMessage::Exit(exit)).await;
        }
    }

    /// The exit code of the command, and whether it was killed for want of memory.
    async fn execute(&self, feed: &Feed, launch: &Launch) -> Option<(u8, bool)> {
        let (_, snapshot) = feed.get();
        let environment = {
            // The semaphore is closed only at the end of the simulation.
            let _permit = self.program_starts.acquire().await.ok()?;
            self.environment(&snapshot, &launch.container, &launch.run, &launch.argv).await
        };
        let print = |stderr: bool, bytes: &[u8]| {
            let (container, run) = (&launch.container, &launch.run);
            launch.outputs.print(container, run, stderr, bytes, self.clock.now());
        };
        let expanded = environment.and_then(|(environment, budget)| {
            Ok((expand_all(&launch.argv, &environment.variables)?, environment, budget))
        });
        let (argv, environment, budget) = match expanded {
            Ok(expanded) => expanded,
            Err(TooLarge(why)) => {
                print(true, format!("exec {}: {why}\n", launch.argv[0]).as_bytes());
                return Some((128, false));
            }
        };
        let mut program =
            match self.start_program((&snapshot, Asker::Command), budget, environment, argv).await {
                Ok(program) => program,
                Err(error) => {
                    print(true, format!("{error}\n").as_bytes());
                    return Some((127, false));
                }
            };
        let mut is_told = false;
        loop {
            match program.step().await {
                ShellStep::Print(channel, printed) => print(channel == 2, printed.as_ref()),
                ShellStep::Sleep(time) => {
                    let begun = Instant::now();
                    tokio::select! {
                        biased;
                        () = stopping(feed, launch), if !is_told => {
                            is_told = true;
                            program.signal(TERM, time.saturating_sub(begun.elapsed())).await;
                        }
                        () = program.wait(time) => {}
                    }
                }
                ShellStep::Yield | ShellStep::Network(..) => {}
                // A main command has no standard input.
                ShellStep::Read => program.input(None).await,
                ShellStep::ReadLine => program.line(None).await,
                ShellStep::Exit(code) => return Some((code, program.is_out_of_memory())),
            }
        }
    }
}

/// Waits until the container is asked to stop: its preStop hook is over, and it gets SIGTERM.
pub(super) async fn stopping(feed: &Feed, launch: &Launch) {
    let is_asked = |snapshot: &Snapshot| match &snapshot.machine.containers[launch.index].phase {
        Phase::Stopping(run) => run.id == launch.run,
        _ => false,
    };
    let (mut seen, mut snapshot) = feed.get();
    while !is_asked(&snapshot) {
        (seen, snapshot) = feed.after(seen).await;
    }
}

/// Waits until the run has ended or the pod is deleted. Commands of a silent node continue.
pub(super) async fn ended(feed: &Feed, container: usize, run: &str) {
    let runs = |snapshot: &Snapshot| {
        let run = find(&snapshot.machine.containers[container], run);
        run.is_some_and(|run| run.ended.is_none())
    };
    let (mut seen, mut snapshot) = feed.get();
    while !snapshot.gone && runs(&snapshot) {
        (seen, snapshot) = feed.after(seen).await;
    }
}

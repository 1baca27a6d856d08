//! Commands that a kubelet runs in a container by itself, for a hook or a probe.

use super::environment::TooLarge;
use super::host_exec::is_on_host;
use super::network::Asker;
use super::program::ended;
use super::real::is_real;
use super::{Feed, ManagerMessage, Snapshot, Streams};
use crate::execution::{Act, Executed, Execution};
use crate::limits::EXECUTION_OUTPUT;
use crate::program;
use kstore_container_sim::ShellStep;
use kstore_informer::Key;
use std::sync::Arc;

/// A command in a container of a pod.
#[derive(Debug)]
pub(crate) struct PodExecution {
    /// Name and namespace of the pod.
    pub(crate) pod: Key,
    pub(crate) uid: Arc<str>,
    pub(crate) execution: Execution,
}

/// A command that has ended, and its result.
#[derive(Debug)]
pub(crate) struct ExecutionDone {
    pub(crate) execution: PodExecution,
    pub(crate) result: Executed,
}

impl Streams {
    /// Runs a command until it ends or its time is over, and reports that. Reports nothing if its container's run ends before.
    pub(crate) async fn run_execution(self, feed: Feed, execution: PodExecution) {
        let Execution { container, run, timeout, act, .. } = &execution.execution;
        // A health check ends by itself, with a text that says how far it has come.
        let timeout = timeout.filter(|_| !matches!(act, Act::Health(..)));
        let mut output = Vec::new();
        let code = tokio::select! {
            biased;
            () = ended(&feed, *container, run) => return,
            code = self.run_to_end(&feed, &execution.execution, &mut output) => Some(code),
            () = tokio::time::sleep(timeout.unwrap_or_default()), if timeout.is_some() => None,
        };
        let output = String::from_utf8_lossy(&output).into_owned();
        let result = Executed { code, output };
        // The manager may have ended.
        let done = Box::new(ExecutionDone { execution, result });
        let _ = self.messages.send(ManagerMessage::Executed(done)).await;
    }

    /// The exit code of the command. The beginning of its output goes to `output`.
    async fn run_to_end(&self, feed: &Feed, execution: &Execution, output: &mut Vec<u8>) -> u8 {
        let (_, snapshot) = feed.get();
        let Some(spec) = snapshot.record.pod.container(execution.container) else { return 127 };
        let is_request = !matches!(execution.act, Act::Command(_));
        let has_ports = || self.has_host_networks() || self.kubelet_network(&snapshot).is_some();
        if is_request && is_on_host(&snapshot, execution.container) && !has_ports() {
            // Its ports are ports of this machine, of which it cannot be said whose they are.
            return 0;
        }
        let argv = match &execution.act {
            Act::Command(argv) if is_real(&snapshot.record.pod) => {
                let command = (argv.as_slice(), execution.timeout);
                return Box::pin(self.execute_in_runtime(&execution.run, command, output)).await;
            }
            Act::Command(argv) if is_on_host(&snapshot, execution.container) => {
                return self.execute_on_host(&snapshot, execution.container, argv, output).await;
            }
            Act::Command(argv) => argv,
            Act::Http(port, path) => return self.request(&snapshot, (*port, false), path, output).await,
            Act::Https(port, path) => return self.request(&snapshot, (*port, true), path, output).await,
            Act::Connect(port) => return self.probe_port(&snapshot, *port, output).await,
            Act::Health(port, service) => {
                let target = (*port, service.as_str());
                return Box::pin(self.probe_health(&snapshot, target, execution.timeout, output)).await;
            }
        };
        let caller = (spec.name.as_str(), execution.run.as_str(), Asker::Command);
        self.run_command(&snapshot, caller, argv, output).await
    }

    /// Runs a command in a run of a container, without standard input, and returns its exit code. The beginning of its output goes to
    /// `output`. `asker` is on whose behalf it connects: of a command, a server or the kubelet.
    pub(super) async fn run_command(
        &self,
        snapshot: &Snapshot,
        (container, run, asker): (&str, &str, Asker),
        argv: &[String],
        output: &mut Vec<u8>,
    ) -> u8 {
        let pod = &snapshot.record.pod;
        let spec = pod.containers().find(|spec| spec.name == container);
        if let Some(why) = spec.and_then(|spec| program::missing(pod, spec, argv)) {
            output.extend_from_slice(why.as_bytes());
            return 127;
        }
        let environment = {
            // The semaphore is closed only at the end of the simulation.
            let Ok(_permit) = self.program_starts.acquire().await else { return 127 };
            self.environment(snapshot, container, run, argv).await
        };
        let started = match environment {
            Ok((environment, budget)) => {
                let started = self.start_program((snapshot, asker), budget, environment, argv.to_vec()).await;
                started.map_err(|error| error.to_string())
            }
            Err(TooLarge(why)) => Err(why.to_owned()),
        };
        let mut program = match started {
            Ok(program) => program,
            Err(error) => {
                output.extend_from_slice(error.as_bytes());
                return 127;
            }
        };
        loop {
            match program.step().await {
                ShellStep::Print(_, printed) => {
                    let printed = printed.as_ref();
                    let room = EXECUTION_OUTPUT.saturating_sub(output.len()).min(printed.len());
                    output.extend_from_slice(&printed[..room]);
                }
                ShellStep::Sleep(time) => program.wait(time).await,
                ShellStep::Yield | ShellStep::Network(..) => {}
                ShellStep::Read => program.input(None).await,
                ShellStep::ReadLine => program.line(None).await,
                ShellStep::Exit(code) => return code,
            }
        }
    }
}

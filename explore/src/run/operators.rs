//! The operators of a run: children of this process with kubeconfigs, ports and output files of their own, which end with it.

use super::{ActiveRun, RunError};
use crate::program::{Placeholders, filled, free_ports, in_folder, port_names};
use crate::record::RecordedExit;
use crate::scenario::{Operator, Ready};
use kstore_api::status::Status;
use kstore_client::Gvr;
use kstore_lab::Credentials;
use kstore_lab::advance::until_quiet;
use kstore_lab::client::ClientReport;
use kstore_lab::log::LogFilter;
use kstore_lab::objects;
use kstore_lab::programs::{ProgramControl as _, ProgramReport, ProgramSpec};
use kstore_nondet::Clock;
use serde_json::json;
use std::time::Duration;

/// Real time in which an operator must become ready.
const READY: Duration = Duration::from_secs(30);
/// Real time between two looks at an operator that becomes ready.
const LOOK: Duration = Duration::from_millis(5);
/// Real time that an operator has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Lines of an operator's output in a message.
const LINES: usize = 8;
/// Lifetime of a token in seconds: longer than any run, so that it ends in none.
const TOKEN_SECONDS: u64 = 10 * 365 * 24 * 3600;

/// What is known of the operators beside what the lab knows.
#[derive(Debug, Default)]
pub(super) struct StartedOperators {
    /// Ends of programs by themselves.
    exits: Vec<RecordedExit>,
}

/// The last lines of an output.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

impl ActiveRun<'_> {
    /// Starts all operators and waits until they are ready.
    pub(super) async fn start_operators(&mut self) -> Result<(), RunError> {
        let operators = &self.prepared.scenario.operators;
        let texts =
            operators.iter().flat_map(|operator| operator.command.iter().chain(operator.env.values()));
        let ports = free_ports(&port_names(texts.chain(&self.prepared.command)))?;
        let dir = self.folder.display().to_string();
        let values = Placeholders { kubeconfig: String::new(), dir, ports };
        for operator in operators {
            self.start(operator, &values).await?;
        }
        for operator in operators {
            self.until_ready(operator).await?;
        }
        Ok(())
    }

    async fn start(&self, operator: &Operator, values: &Placeholders) -> Result<(), RunError> {
        let name = operator.name.clone();
        let refused = |problem: String| RunError::Operator { name: name.clone(), problem };
        let command = if operator.command.is_empty() { &self.prepared.command } else { &operator.command };
        let command = in_folder(command, &self.prepared.folder);
        let folder = self.folder.join(&operator.name);
        std::fs::create_dir_all(&folder)?;
        let fill = |text: &String| filled(text, values).map_err(|error| refused(error.to_string()));
        let kubeconfig = self.kubeconfig(operator).await.map_err(|status| refused(status.message))?;
        let mut spec = ProgramSpec {
            name: operator.name.clone(),
            command: command.iter().map(fill).collect::<Result<_, _>>()?,
            folder: Some(folder.clone()),
            output: Some(self.folder.join(format!("{}.log", operator.name))),
            service_account: operator.service_account.clone(),
            ..ProgramSpec::default()
        };
        for (variable, value) in &operator.env {
            spec.env.insert(variable.clone(), fill(value)?);
        }
        self.cluster.programs().run(spec, &kubeconfig).map_err(|status| refused(status.message))?;
        Ok(())
    }

    /// The kubeconfig of an operator: a token of its service account, or a certificate of an administrator under its name.
    async fn kubeconfig(&self, operator: &Operator) -> Result<String, Status> {
        let Some(account) = &operator.service_account else {
            let groups = ["system:masters".to_owned()];
            let user = format!("kstore:lab:{}", operator.name);
            return self.cluster.kubeconfig(&Credentials::Certificate(&user, &groups));
        };
        let (namespace, name) = account.split_once('/').unwrap_or(("default", account));
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS}});
        let running = self.current.running().clone();
        let asked = running.clone();
        let asking = running.call(async move {
            let api = objects::client(&asked).dynamic(Gvr::new("", "v1", "serviceaccounts"));
            api.create_subresource(&namespace, &name, "token", &request).await
        });
        let answer = asking.await.map_err(|ended| Status::internal(ended.to_string()))?;
        let answer =
            answer.map_err(|error| Status::internal(format!("service account {account}: {error}")))?;
        let token = answer["status"]["token"].as_str().unwrap_or_default();
        self.cluster.kubeconfig(&Credentials::Token(account, token))
    }

    /// Waits until an operator is ready and quiet.
    async fn until_ready(&self, operator: &Operator) -> Result<(), RunError> {
        let (running, clients) = (self.current.running(), &self.current.bridge.clients);
        let clock = Clock::real();
        let end = clock.now().saturating_add(READY).unwrap_or(jiff::Timestamp::MAX);
        loop {
            let refused = |problem: String| RunError::Operator { name: operator.name.clone(), problem };
            let report = self.report(&operator.name).map_err(|status| refused(status.message))?;
            if report.state == "ended" {
                let code = report.code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
                return Err(refused(format!(
                    "ended with {code} before it was ready:\n{}",
                    tail(&report.tail)
                )));
            }
            if self.has_begun(operator, &report) {
                let quiet = until_quiet(running, clients, self.patience()).await;
                if quiet.map_err(|ended| refused(ended.to_string()))?.is_ok()
                    && self.has_begun(operator, &report)
                {
                    return Ok(());
                }
            }
            if clock.now() >= end {
                let seconds = READY.as_secs();
                return Err(refused(format!("is not ready after {seconds} s:\n{}", tail(&report.tail))));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether an operator does what its `ready` asks for.
    fn has_begun(&self, operator: &Operator, report: &ProgramReport) -> bool {
        let clients = &self.current.bridge.clients;
        match &operator.ready {
            Ready::Log(text) => report.tail.contains(text.as_str()),
            Ready::Quiet => self.client(&operator.name).is_some_and(|client| client.watches > 0),
            Ready::Watches(wanted) => {
                let view = clients.view(&operator.name);
                let watches = |resource: &String| {
                    view.as_ref()
                        .is_some_and(|view| view.kinds.get(resource).is_some_and(|kind| kind.watches > 0))
                };
                wanted.iter().all(watches)
            }
        }
    }

    fn client(&self, name: &str) -> Option<ClientReport> {
        self.current.bridge.clients.reports(Some(name)).into_iter().next()
    }

    fn report(&self, name: &str) -> Result<ProgramReport, Status> {
        self.cluster.programs().report(name)
    }

    /// Notes programs that ended by themselves, and starts them again, as a cluster would. Not while the plan may have ended them.
    pub(super) async fn revive(&mut self) -> Result<(), RunError> {
        for operator in &self.prepared.scenario.operators {
            let name = &operator.name;
            let Ok(report) = self.report(name) else { continue };
            let Some(code) = report.code.filter(|_| report.state == "ended") else { continue };
            if self.ends_programs && code == 0 {
                continue;
            }
            let output = tail(&report.tail);
            self.operators.exits.push(RecordedExit {
                program: name.clone(),
                code,
                output,
                after_fault: self.has_had_fault(name),
            });
            let started = self.cluster.programs().start(name).await;
            started.map_err(RunError::lab("an operator does not start again"))?;
        }
        Ok(())
    }

    /// Whether a request of a client got an injected fault.
    fn has_had_fault(&self, client: &str) -> bool {
        let of_client = LogFilter { client: Some(client.to_owned()), ..LogFilter::default() };
        let logged = self.current.bridge.log.read(&of_client, None, crate::limits::LOG);
        logged.is_ok_and(|(requests, _)| requests.iter().any(|request| !request.fault.is_empty()))
    }

    /// Restarts all operators in order.
    pub(super) async fn restart_operators(&mut self) -> Result<(), RunError> {
        for operator in &self.prepared.scenario.operators {
            let programs = self.cluster.programs();
            let stopped = programs.stop(&operator.name, GRACE).await;
            stopped.map_err(RunError::lab("an operator does not stop"))?;
            let started = programs.start(&operator.name).await;
            started.map_err(RunError::lab("an operator does not start again"))?;
            self.until_ready(operator).await?;
        }
        Ok(())
    }

    /// Programs that ended by themselves.
    pub(super) fn exits(&mut self) -> Vec<RecordedExit> {
        std::mem::take(&mut self.operators.exits)
    }

    /// The ends of the outputs.
    pub(super) fn outputs(&self) -> Vec<(String, String)> {
        let reports = self.cluster.programs().reports();
        reports.into_iter().map(|report| (report.name, report.tail)).collect()
    }

    /// Programs that ever listed with `resourceVersion=0`.
    pub(super) fn lists_from_cache(&self) -> Vec<String> {
        let names = self.prepared.programs();
        let lists = |name: &String| self.client(name).is_some_and(|client| client.lists_from_cache);
        names.into_iter().filter(lists).collect()
    }

    /// Ends all operators.
    pub(super) async fn stop_operators(&self) {
        for operator in &self.prepared.scenario.operators {
            self.cluster.programs().end(&operator.name, GRACE).await;
        }
    }
}

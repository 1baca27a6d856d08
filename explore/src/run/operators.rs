//! The operators of a run: children of this process with kubeconfigs, ports and output files of their own, which end with it.

use super::{ActiveRun, HeldRun, RunError};
use crate::limits;
use crate::program::{PlaceholderError, Placeholders, filled, free_ports, in_folder, port_names};
use crate::record::{RecordedExit, RunEnd};
use crate::scenario::{Operator, Ready};
use kstore_api::status::Status;
use kstore_client::Gvr;
use kstore_lab::Credentials;
use kstore_lab::advance::until_quiet;
use kstore_lab::client::ClientReport;
use kstore_lab::log::LogFilter;
use kstore_lab::objects;
use kstore_lab::programs::{ProgramControl as _, ProgramReport, ProgramSpec};
use kstore_lab::webhooks::WebhookServices;
use kstore_nondet::Clock;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpStream;

/// Real time in which an operator must become ready.
const READY: Duration = Duration::from_secs(30);
/// Real time between two looks at an operator that becomes ready.
const LOOK: Duration = Duration::from_millis(10);
/// Real time that an operator has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Real time without a write for which an operator may wait to open a watch again: informers of client-go do so 0.8 to 12.8 s after each of
/// their first four failures, by their own clock.
const REOPEN: Duration = Duration::from_secs(15);
/// Longest real time for which an operator that was started again counts as starting: a program in Go with many caches takes seconds on a
/// busy machine.
const STARTS: Duration = Duration::from_secs(10);
/// Number of SIGKILL.
const KILLED: i32 = 9;
/// Number of SIGTERM.
const TERMINATED: i32 = 15;
/// Lines of an operator's output in a message.
const LINES: usize = 8;
/// Lifetime of a token in seconds: longer than any run, so that it ends in none.
const TOKEN_SECONDS: u64 = 10 * 365 * 24 * 3600;

/// Real time before a program that ended by itself is started again, the first time; each further time takes twice as long.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Most doublings of [`BACK_OFF`].
const DOUBLINGS: usize = 5;

/// What is known of the operators beside what the lab knows.
#[derive(Debug, Default)]
pub(super) struct StartedOperators {
    /// Ends of programs by themselves.
    exits: Vec<RecordedExit>,
    /// The newest of them by program: which start it was, and the real time.
    newest: BTreeMap<String, (u32, jiff::Timestamp)>,
    /// Ports of the run by name, those of first replicas.
    pub(super) ports: BTreeMap<String, u16>,
    /// Ports of further replicas by operator and name.
    of_replicas: BTreeMap<String, BTreeMap<String, u16>>,
}

impl StartedOperators {
    /// Ports of an operator by name.
    fn ports_of(&self, operator: &Operator) -> &BTreeMap<String, u16> {
        self.of_replicas.get(&operator.name).unwrap_or(&self.ports)
    }

    /// Real time for which a program that has ended stays so.
    fn back_off(&self, program: &str) -> Duration {
        let exits = self.exits.iter().filter(|exit| exit.program == program).count();
        BACK_OFF * (1 << exits.saturating_sub(1).min(DOUBLINGS))
    }
}

/// The exit code of a program that ended by itself; `None`: it runs, or the plan ended it.
fn own_end(report: &ProgramReport, ends_programs: bool) -> Option<i32> {
    let by_plan = |signal: &i32| ends_programs && [KILLED, TERMINATED].contains(signal);
    let signal = report.signal.filter(|signal| !by_plan(signal)).map(|signal| 128 + signal);
    report.code.or(signal).filter(|_| report.state == "ended")
}

/// The last lines of an output.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// A new file that only its owner may read.
fn private_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// The end of a file, from a whole line on.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(limits::OUTPUT_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(limits::OUTPUT_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, rest)) if from > 0 => rest.to_owned(),
        _ => text.into_owned(),
    })
}

impl ActiveRun<'_> {
    /// Starts all operators and waits until they are ready. Returns the end of the run if its plan keeps one of them from being so.
    pub(super) async fn start_operators(&mut self) -> Result<Option<RunEnd>, RunError> {
        let prepared = self.prepared;
        let operators = &prepared.scenario.operators;
        let texts =
            operators.iter().flat_map(|operator| operator.command.iter().chain(operator.env.values()));
        let services = &prepared.scenario.cluster.services;
        let texts = texts.chain(&self.prepared.command).chain(services.values());
        // All at once, so that no two are equal.
        let names = port_names(texts);
        let further = operators.iter().filter(|operator| operator.replica_of.is_some());
        let further: Vec<&Operator> = further.collect();
        let own = |operator: &Operator, name: &String| format!("{name}/{}", operator.name);
        let of_replicas = further.iter().flat_map(|operator| names.iter().map(|name| own(operator, name)));
        let mut ports = free_ports(&names.iter().cloned().chain(of_replicas).collect::<Vec<_>>())?;
        for operator in &further {
            let of_replica =
                names.iter().filter_map(|name| Some((name.clone(), ports.remove(&own(operator, name))?)));
            let of_replica = of_replica.collect();
            self.operators.of_replicas.insert(operator.name.clone(), of_replica);
        }
        for operator in operators {
            if let Ready::Port(name) = &operator.ready
                && !ports.contains_key(name)
            {
                let problem = format!("has no port {name:?}: no command has {{port:{name}}}");
                return Err(RunError::Operator { name: operator.name.clone(), problem });
            }
        }
        self.operators.ports.clone_from(&ports);
        let dir = self.folder.display().to_string();
        let values = Placeholders { kubeconfig: String::new(), dir, ports };
        self.provide(services, &values)?;
        let (first, further): (Vec<_>, Vec<_>) =
            operators.iter().partition(|operator| operator.replica_of.is_none());
        for operator in &first {
            self.start(operator, values.clone()).await?;
        }
        for operator in first {
            if let Some(end) = self.until_ready(operator).await? {
                return Ok(Some(end));
            }
        }
        // After the first one, which leads in each run, so that equal runs go alike.
        for operator in further {
            let ports = self.operators.of_replicas.get(&operator.name).cloned().unwrap_or_default();
            self.start(operator, Placeholders { ports, ..values.clone() }).await?;
            if let Some(end) = self.until_ready(operator).await? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Calls of webhooks and APIs of these Services go to the operators.
    fn provide(&self, services: &BTreeMap<String, String>, values: &Placeholders) -> Result<(), RunError> {
        let address =
            |(service, address): (&String, &String)| Ok((service.clone(), filled(address, values)?));
        let addresses: Result<Vec<(String, String)>, PlaceholderError> =
            services.iter().map(address).collect();
        let wrong =
            |problem: String| RunError::lab("a Service cannot be provided")(Status::bad_request(problem));
        let addresses = addresses.map_err(|error| wrong(error.to_string()))?;
        let texts = addresses.iter().map(|(service, address)| (service.as_str(), address.as_str()));
        let (backends, front_proxy) =
            (WebhookServices::read(texts).map_err(wrong)?, &self.prepared.front_proxy);
        let set = self.current.running().webhooks.services.set(backends, front_proxy.as_deref());
        set.map_err(wrong)?;
        Ok(())
    }

    async fn start(&self, operator: &Operator, mut values: Placeholders) -> Result<(), RunError> {
        let name = operator.name.clone();
        let refused = |problem: String| RunError::Operator { name: name.clone(), problem };
        let command = if operator.command.is_empty() { &self.prepared.command } else { &operator.command };
        let command = in_folder(command, &self.prepared.folder);
        let folder = self.folder.join(&operator.name);
        std::fs::create_dir_all(&folder)?;
        let kubeconfig = self.kubeconfig(operator).await.map_err(|status| refused(status.message))?;
        let path = self.folder.join(format!("{}.kubeconfig", operator.name));
        private_file(&path)?.write_all(kubeconfig.as_bytes())?;
        values.kubeconfig = path.display().to_string();
        let fill = |text: &String| filled(text, &values).map_err(|error| refused(error.to_string()));
        let mut spec = ProgramSpec {
            name: operator.name.clone(),
            command: command.iter().map(fill).collect::<Result<_, _>>()?,
            folder: Some(folder.clone()),
            output: Some(self.folder.join(format!("{}.log", operator.name))),
            service_account: operator.service_account.clone(),
            releases_leases: true,
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
            return self.cluster.kubeconfig(&Credentials::Certificate(&operator.user(), &groups));
        };
        let (namespace, name) = account.split_once('/').unwrap_or(("default", account));
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS}});
        let running = self.current.running().clone();
        let cluster = running.clone();
        let call = running.call(async move {
            let api = objects::client(&cluster).dynamic(Gvr::new("", "v1", "serviceaccounts"));
            api.create_subresource(&namespace, &name, "token", &request).await
        });
        let answer = call.await.map_err(|ended| Status::internal(ended.to_string()))?;
        let answer =
            answer.map_err(|error| Status::internal(format!("service account {account}: {error}")))?;
        let token = answer["status"]["token"].as_str().unwrap_or_default();
        self.cluster.kubeconfig(&Credentials::Token(account, token))
    }

    /// Waits until an operator is ready and quiet. Without a plan one that ends or is not ready in time is unusable; with a plan it is
    /// started again, and its run ends.
    async fn until_ready(&mut self, operator: &Operator) -> Result<Option<RunEnd>, RunError> {
        let (running, clients) = (self.current.running().clone(), self.current.bridge.clients.clone());
        let clock = Clock::real();
        let end = clock.now().saturating_add(READY).unwrap_or(jiff::Timestamp::MAX);
        let refused = |problem: String| RunError::Operator { name: operator.name.clone(), problem };
        loop {
            let report = self.report(&operator.name).map_err(|status| refused(status.message))?;
            if report.state == "ended" && self.injected.is_none() {
                let by = report.code.map(|code| format!("code {code}"));
                let by = by.or_else(|| report.signal.map(|signal| format!("signal {signal}")));
                let by = by.unwrap_or_default();
                return Err(refused(format!("ended with {by} before it was ready:\n{}", tail(&report.tail))));
            }
            self.revive().await?;
            if report.state != "ended" && self.has_begun(operator, &report).await {
                let quiet = until_quiet(&running, &clients, self.patience()).await;
                if quiet.map_err(|ended| refused(ended.to_string()))?.is_ok() || self.is_held() {
                    return Ok(None);
                }
            }
            if clock.now() >= end {
                let problem = format!("is not ready after {} s", READY.as_secs());
                return match self.injected.is_some() {
                    true => Ok(Some(RunEnd::Busy(vec![format!("operator {} {problem}", operator.name)]))),
                    false => Err(refused(format!("{problem}:\n{}", tail(&report.tail)))),
                };
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether an operator is ready: it does what its `ready` asks for, or it has asked for something and another replica does, since one
    /// that waits to lead may do nothing but that.
    async fn has_begun(&self, operator: &Operator, report: &ProgramReport) -> bool {
        if self.is_active(operator, report).await {
            return true;
        }
        let has_asked = self.client(&operator.name).is_some_and(|client| client.requests > 0);
        let operators = self.prepared.scenario.operators.iter();
        for other in operators.filter(|other| has_asked && other.group() == operator.group()) {
            let Ok(report) = self.report(&other.name) else { continue };
            if report.state != "ended" && self.is_active(other, &report).await {
                return true;
            }
        }
        false
    }

    /// Whether an operator does what its `ready` asks for.
    async fn is_active(&self, operator: &Operator, report: &ProgramReport) -> bool {
        let clients = &self.current.bridge.clients;
        match &operator.ready {
            Ready::Log(text) => report.tail.contains(text.as_str()),
            Ready::Port(name) => match self.operators.ports_of(operator).get(name) {
                Some(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).await.is_ok(),
                None => false,
            },
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
        let prepared = self.prepared;
        for operator in &prepared.scenario.operators {
            let name = &operator.name;
            let Ok(report) = self.report(name) else { continue };
            let Some(code) = own_end(&report, self.ends_programs) else { continue };
            // Read after the report: while the plan ends and starts a program, its action is held.
            let is_plans = self.ends_programs && self.is_held();
            if is_plans || self.report(name).is_ok_and(|now| now.incarnation != report.incarnation) {
                continue;
            }
            let now = Clock::real().now();
            let (_, since) = match self.operators.newest.get(name) {
                Some(newest) if newest.0 == report.incarnation => *newest,
                _ => {
                    let (program, output) = (name.clone(), tail(&report.tail));
                    let after_fault = self.has_had_fault(name);
                    self.operators.exits.push(RecordedExit { program, code, output, after_fault });
                    let newest = (report.incarnation, now);
                    self.operators.newest.insert(name.clone(), newest);
                    newest
                }
            };
            if now.duration_since(since).unsigned_abs() < self.operators.back_off(name) {
                continue;
            }
            let started = self.cluster.programs().start(name).await;
            started.map_err(RunError::lab("an operator does not start again"))?;
        }
        Ok(())
    }

    /// Real time without a write after which an operator has given up. One whose watch was cut waits before it opens it again.
    pub(super) fn silence(&self) -> Duration {
        let clients = &self.current.bridge.clients;
        let waits = |operator: &Operator| {
            let is_running = self.report(&operator.name).is_ok_and(|report| report.state != "ended");
            is_running && clients.view(&operator.name).is_some_and(|view| view.is_interrupted())
        };
        match self.prepared.scenario.operators.iter().any(waits) {
            true => self.limits.silence.max(REOPEN),
            false => self.limits.silence,
        }
    }

    /// Whether an operator that was ended or started again does not do yet what its `ready` asks for: of the time for that its pauses say
    /// nothing. Not for longer than [`STARTS`]; `since` is when this was first asked with this answer, and is kept by the caller.
    pub(super) async fn is_any_starting(&self, since: &mut Option<Duration>) -> bool {
        let mut starting = false;
        for operator in &self.prepared.scenario.operators {
            let Ok(report) = self.report(&operator.name) else { continue };
            let is_up = report.state != "ended" && self.has_begun(operator, &report).await;
            starting |= !is_up && (report.incarnation > 0 || report.state == "ended");
        }
        if !starting {
            *since = None;
        }
        starting && self.elapsed().saturating_sub(*since.get_or_insert(self.elapsed())) < STARTS
    }

    /// Whether an operator has ended and is not started again yet.
    pub(super) fn is_down(&self) -> bool {
        let mut operators = self.prepared.scenario.operators.iter();
        operators.any(|operator| self.report(&operator.name).is_ok_and(|report| report.state == "ended"))
    }

    /// Whether a request of a client got an injected fault.
    fn has_had_fault(&self, client: &str) -> bool {
        let of_client = LogFilter { client: Some(client.to_owned()), ..LogFilter::default() };
        let logged = self.current.bridge.log.read(&of_client, None, limits::LOG);
        logged.is_ok_and(|(requests, _)| requests.iter().any(|request| !request.fault.is_empty()))
    }

    /// Restarts all operators in order.
    pub(super) async fn restart_operators(&mut self) -> Result<(), RunError> {
        let prepared = self.prepared;
        for operator in &prepared.scenario.operators {
            let programs = self.cluster.programs().clone();
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
        let output = |report: ProgramReport| (report.name, end_of(&report.output).unwrap_or(report.tail));
        reports.into_iter().map(output).collect()
    }

    /// Leaves cluster and operators as they are.
    pub(super) fn hold(&self) -> Result<HeldRun, RunError> {
        let kubeconfig = self.folder.join("admin.kubeconfig");
        let groups = ["system:masters".to_owned()];
        let text = self.cluster.kubeconfig(&Credentials::Certificate("kstore:admin", &groups));
        let text = text.map_err(RunError::lab("no kubeconfig can be made"))?;
        private_file(&kubeconfig)?.write_all(text.as_bytes())?;
        let reports = self.cluster.programs().reports();
        let outputs = reports.into_iter().map(|report| (report.name, report.output)).collect();
        Ok(HeldRun { kubeconfig, outputs })
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

//! Programs: tested programs that the server starts as its children, for example operators. Each has a process group, a kubeconfig and an
//! output file, is a client of its cluster that is known by its process, and ends with the cluster, or with the server however that ends.
//!
//! `spec` is what a program is started with, `control` what plans do with programs, `process` one start, `output` its bounded file, and
//! `sentinel` ends process groups after a crash of the server.

pub mod control;
mod output;
mod process;
mod sentinel;
pub mod spec;
#[cfg(test)]
mod tests;

use crate::client::{Clients, ProgramClient, process as system};
use crate::error::{conflict, impossible, not_found, too_many};
use crate::{limits, values};
pub use control::{ProgramControl, ProgramSignal};
use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use kstore_api::status::Status;
use kstore_nondet::Clock;
use output::ProgramOutput;
use parking_lot::Mutex;
pub use process::ProgramEnd;
use process::ProgramProcess;
use serde::Serialize;
pub use spec::ProgramSpec;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A program in answers of the lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramReport {
    /// Name.
    pub name: String,
    /// Command with its arguments.
    pub command: Vec<String>,
    /// User of its kubeconfig.
    pub user: String,
    /// Path of its kubeconfig.
    pub kubeconfig: PathBuf,
    /// File with its output.
    pub output: PathBuf,
    /// Whether output was dropped at the bound.
    pub output_cut: bool,
    /// The end of its output.
    pub tail: String,
    /// `running` or `ended`.
    pub state: &'static str,
    /// Its process, or the last one.
    pub process: u32,
    /// Number of times that it was started again.
    pub incarnation: u32,
    /// Exit code, if it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Number of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// A program of a cluster.
struct Program {
    spec: ProgramSpec,
    user: String,
    kubeconfig: PathBuf,
    output_path: PathBuf,
    output: Arc<ProgramOutput>,
    start: Mutex<ProgramStart>,
}

/// The newest start of a program.
struct ProgramStart {
    process: Arc<ProgramProcess>,
    incarnation: u32,
}

impl Program {
    fn process(&self) -> Arc<ProgramProcess> {
        self.start.lock().process.clone()
    }

    fn client(&self) -> ProgramClient {
        let start = self.start.lock();
        ProgramClient {
            user: self.user.clone(),
            process: start.process.id,
            incarnation: start.incarnation,
            is_counted: self.spec.counted.unwrap_or(true),
        }
    }

    fn report(&self) -> ProgramReport {
        let start = self.start.lock();
        let end = start.process.end();
        ProgramReport {
            name: self.spec.name.clone(),
            command: self.spec.command.clone(),
            user: self.user.clone(),
            kubeconfig: self.kubeconfig.clone(),
            output: self.output_path.clone(),
            output_cut: self.output.is_cut(),
            tail: self.output.tail(),
            state: if end.is_some() { "ended" } else { "running" },
            process: start.process.id,
            incarnation: start.incarnation,
            code: end.and_then(|end| end.code),
            signal: end.and_then(|end| end.signal),
        }
    }
}

/// Sends SIGTERM, and SIGKILL after `grace`.
async fn stop(process: &ProgramProcess, grace: Duration) {
    process.signal(ProgramSignal::Term);
    // A paused process gets SIGTERM only when it goes on.
    process.signal(ProgramSignal::Cont);
    if tokio::time::timeout(grace, process.ended()).await.is_err() {
        process.signal(ProgramSignal::Kill);
        process.ended().await;
    }
}

/// Makes a folder that only this user may read. It is removed when this process ends in any way, also by SIGKILL.
///
/// # Errors
/// The folder, or the process that removes it, cannot be made.
pub fn private_folder(name: &str) -> io::Result<PathBuf> {
    sentinel::folder(name)
}

/// A process group that this process started for a command. It is killed when this is dropped, or when this process ends in any way.
#[derive(Debug)]
pub struct CommandGroup(u32);

impl CommandGroup {
    /// Watches the group of a process that leads one.
    ///
    /// # Errors
    /// The process that kills the group cannot be made.
    pub fn watch(leader: u32) -> io::Result<Self> {
        // The sentinel has a folder.
        sentinel::start()?;
        sentinel::watch(leader)?;
        Ok(Self(leader))
    }
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        process::kill(self.0);
        sentinel::forget(self.0);
    }
}

/// The programs of one cluster. All methods that start or wait run on the process's runtime.
#[derive(Default)]
pub struct Programs {
    state: Mutex<ProgramsState>,
    peers: Mutex<BTreeMap<SocketAddr, (Timestamp, Option<String>)>>,
    /// Whether there ever was a program, so that requests have to look for them.
    has_any: AtomicBool,
}

#[derive(Default)]
struct ProgramsState {
    programs: BTreeMap<String, Arc<Program>>,
    /// Clients of the cluster's current generation: a reset replaces them.
    clients: Option<Arc<Clients>>,
    has_ended: bool,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Programs {
    /// Names of all programs.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().programs.keys().cloned().collect()
    }

    /// Makes the programs clients of a cluster's new generation.
    pub(crate) fn attach(&self, clients: &Arc<Clients>) {
        let mut state = self.state.lock();
        for (name, program) in &state.programs {
            // A new generation has no clients yet, and fewer programs than clients may be.
            let _ = clients.define_program(name, &program.client());
        }
        state.clients = Some(clients.clone());
    }

    fn program(&self, name: &str) -> Result<Arc<Program>, Status> {
        self.state.lock().programs.get(name).cloned().ok_or_else(|| not_found("program", name))
    }

    /// A program that was made with an equal body, if there is one.
    ///
    /// # Errors
    /// 409: the name is taken by another program.
    pub fn equal(&self, spec: &ProgramSpec) -> Result<Option<ProgramReport>, Status> {
        match self.program(&spec.name) {
            Ok(program) if program.spec == *spec => Ok(Some(program.report())),
            Ok(_) => Err(taken(&spec.name)),
            Err(_) => Ok(None),
        }
    }

    /// Starts a program with this kubeconfig (YAML), unless one was made with an equal body.
    ///
    /// # Errors
    /// 400: the body is wrong. 409: the name is taken. 410: the cluster ends. 422: the command cannot be started. 429: too many programs.
    pub fn run(&self, spec: ProgramSpec, kubeconfig: &str) -> Result<ProgramReport, Status> {
        spec.check()?;
        if let Some(equal) = self.equal(&spec)? {
            return Ok(equal);
        }
        if self.state.lock().programs.len() >= limits::PROGRAMS {
            return Err(too_many("programs", limits::PROGRAMS, "too many programs"));
        }
        let user = spec.user_name();
        let refused = |error: io::Error| cannot_start(&spec.command, &error);
        let program = start(spec.clone(), user, kubeconfig).map_err(refused)?;
        let report = program.report();
        self.keep(Arc::new(program))?;
        Ok(report)
    }

    /// Adds a program that was started, and makes it a client. A refused one ends.
    fn keep(&self, program: Arc<Program>) -> Result<(), Status> {
        let mut state = self.state.lock();
        let name = program.spec.name.clone();
        if state.has_ended {
            return Err(crate::error::ended());
        }
        if state.programs.contains_key(&name) {
            return Err(taken(&name));
        }
        if state.programs.len() >= limits::PROGRAMS {
            return Err(too_many("programs", limits::PROGRAMS, "too many programs"));
        }
        if let Some(clients) = &state.clients {
            clients.define_program(&name, &program.client())?;
        }
        state.programs.insert(name, program);
        self.has_any.store(true, Ordering::Release);
        Ok(())
    }

    /// A program in answers.
    ///
    /// # Errors
    /// 404: there is none of this name.
    pub fn report(&self, name: &str) -> Result<ProgramReport, Status> {
        Ok(self.program(name)?.report())
    }

    /// Waits until a program has ended, also one that is started again meanwhile.
    ///
    /// # Errors
    /// 404: there is none of this name.
    pub(crate) async fn ended(&self, name: &str) -> Result<ProgramReport, Status> {
        let program = self.program(name)?;
        loop {
            program.process().ended().await;
            let report = program.report();
            if report.state == "ended" {
                return Ok(report);
            }
        }
    }

    /// Whether this start of a program has ended, or the program is forgotten.
    pub(crate) fn has_ended(&self, name: &str, incarnation: u32) -> bool {
        let Ok(program) = self.program(name) else { return true };
        let start = program.start.lock();
        start.incarnation != incarnation || start.process.end().is_some()
    }

    /// All programs in answers, by name.
    pub fn reports(&self) -> Vec<ProgramReport> {
        let programs: Vec<_> = self.state.lock().programs.values().cloned().collect();
        programs.iter().map(|program| program.report()).collect()
    }

    /// Ends a program with SIGTERM, and SIGKILL after `grace`, and forgets it with its client. Without effect on unknown names.
    pub async fn end(&self, name: &str, grace: Duration) {
        let Ok(program) = self.program(name) else { return };
        stop(&program.process(), grace).await;
        let mut state = self.state.lock();
        let is_it = state.programs.get(name).is_some_and(|known| Arc::ptr_eq(known, &program));
        if is_it {
            state.programs.remove(name);
            if let Some(clients) = &state.clients {
                clients.forget(name);
            }
            forget_files(&program);
        }
    }

    /// Kills all programs, and returns when their processes are gone. No further one starts.
    pub async fn end_all(&self) {
        let programs = {
            let mut state = self.state.lock();
            state.has_ended = true;
            std::mem::take(&mut state.programs)
        };
        let ends = programs.values().map(|program| async move {
            let process = program.process();
            process.signal(ProgramSignal::Kill);
            process.ended().await;
            forget_files(program);
        });
        join_all(ends).await;
    }

    /// Whether there ever was a program.
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// The program whose process has the other end of a connection; `None` if it is no program's, or the system does not tell. `port` is
    /// that of the cluster's listener.
    pub(crate) fn of_peer(&self, peer: SocketAddr, port: u16) -> Option<String> {
        if !self.has_any() {
            return None;
        }
        let groups: BTreeMap<u32, String> = {
            let state = self.state.lock();
            if state.programs.is_empty() {
                return None;
            }
            let names = state.programs.iter();
            names.map(|(name, program)| (program.process().id, name.clone())).collect()
        };
        let SocketAddr::V4(address) = peer else { return None };
        let now = Clock::real().now();
        let is_new = |at: Timestamp| now.duration_since(at).unsigned_abs() < limits::PEER_LIFE;
        if let Some((_, known)) = self.peers.lock().get(&peer).filter(|(at, _)| is_new(*at)) {
            return known.clone();
        }
        let ours = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
        let leaders: Vec<u32> = groups.keys().copied().collect();
        let owner = system::owner(address, ours, &leaders).and_then(|leader| groups.get(&leader).cloned());
        let mut peers = self.peers.lock();
        if peers.len() >= limits::PEERS {
            peers.clear();
        }
        peers.insert(peer, (now, owner.clone()));
        owner
    }
}

fn taken(name: &str) -> Status {
    conflict(format!("a program with another command has the name {name:?}: end it first"))
}

fn cannot_start(command: &[String], error: &io::Error) -> Status {
    impossible(format!("{:?} cannot be started: {error}", command.first().map_or("", String::as_str)))
}

/// Starts a program for the first time.
fn start(spec: ProgramSpec, user: String, kubeconfig: &str) -> io::Result<Program> {
    let folder = sentinel::folder(&spec.name)?;
    let path = folder.join("kubeconfig");
    // The file has a private key: only the server's user may read it.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(kubeconfig.as_bytes())?;
    let output_path = spec.output.clone().unwrap_or_else(|| folder.join("output"));
    let output = ProgramOutput::create(&output_path, limits::PROGRAM_OUTPUT)?;
    let process = Arc::new(ProgramProcess::start(&spec, &path, &output)?);
    let start = Mutex::new(ProgramStart { process, incarnation: 0 });
    Ok(Program { spec, user, kubeconfig: path, output_path, output, start })
}

/// Removes the folder of a program that has ended.
fn forget_files(program: &Program) {
    if let Some(folder) = program.kubeconfig.parent() {
        let _ = fs::remove_dir_all(folder);
    }
}

impl ProgramControl for Programs {
    fn signal(&self, program: &str, signal: ProgramSignal) -> Result<(), Status> {
        self.program(program)?.process().signal(signal);
        Ok(())
    }

    fn kill<'p>(&'p self, program: &'p str) -> BoxFuture<'p, Result<(), Status>> {
        Box::pin(async move {
            let process = self.program(program)?.process();
            process.signal(ProgramSignal::Kill);
            process.ended().await;
            Ok(())
        })
    }

    fn stop<'p>(&'p self, program: &'p str, grace: Duration) -> BoxFuture<'p, Result<(), Status>> {
        Box::pin(async move {
            stop(&self.program(program)?.process(), grace).await;
            Ok(())
        })
    }

    fn start<'p>(&'p self, program: &'p str) -> BoxFuture<'p, Result<u32, Status>> {
        Box::pin(async move {
            let known = self.program(program)?;
            let mut start = known.start.lock();
            if start.process.end().is_none() {
                return Err(conflict(format!("program {program:?} runs")));
            }
            let started = ProgramProcess::start(&known.spec, &known.kubeconfig, &known.output);
            let started = started.map_err(|error| cannot_start(&known.spec.command, &error))?;
            let incarnation = start.incarnation + 1;
            *start = ProgramStart { process: Arc::new(started), incarnation };
            drop(start);
            if let Some(clients) = &self.state.lock().clients {
                clients.define_program(program, &known.client())?;
            }
            Ok(incarnation)
        })
    }

    fn start_second<'p>(&'p self, program: &'p str, name: &'p str) -> BoxFuture<'p, Result<(), Status>> {
        Box::pin(async move {
            let first = self.program(program)?;
            values::name(name, "/name")?;
            if self.program(name).is_ok() {
                return Err(taken(name));
            }
            let kubeconfig = fs::read_to_string(&first.kubeconfig).map_err(Status::internal)?;
            // The output of the first program stays its own.
            let spec = ProgramSpec { name: name.to_owned(), output: None, ..first.spec.clone() };
            let refused = |error: io::Error| cannot_start(&first.spec.command, &error);
            let second = start(spec, first.user.clone(), &kubeconfig).map_err(refused)?;
            self.keep(Arc::new(second))
        })
    }

    fn is_running(&self, program: &str) -> Option<bool> {
        Some(self.program(program).ok()?.process().end().is_none())
    }

    fn releases_leases(&self, program: &str) -> bool {
        self.program(program).is_ok_and(|program| program.spec.releases_leases)
    }
}

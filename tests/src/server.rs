//! [`Server`]: the program `kstore-server` as a child process that ends with its handle.

use crate::wait::PATIENCE;
use kstore_client::{Client, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Command line and log of a server to start.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    args: Vec<String>,
    log: PathBuf,
}

impl Launch {
    /// The program at `program` (`env!("CARGO_BIN_EXE_…")`) on a free port, with its data and log in `dir`.
    pub fn on_disk(program: &str, dir: &Path) -> Self {
        let data = dir.join("data").display().to_string();
        Self::new(program, dir).args(&["--listen", "127.0.0.1:0", "--data-dir", &data])
    }

    /// The program on a free port, in memory, with its log in `dir`.
    pub fn in_memory(program: &str, dir: &Path) -> Self {
        Self::new(program, dir).args(&["--listen", "127.0.0.1:0", "--in-memory"])
    }

    /// The program without flags, with its log in `dir`.
    pub fn new(program: &str, dir: &Path) -> Self {
        Self { program: program.into(), args: Vec::new(), log: dir.join("server.log") }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self
    }

    /// Starts the program and waits until it is ready.
    ///
    /// # Errors
    ///
    /// The program ended instead; the error is its log.
    ///
    /// # Panics
    ///
    /// The program serves the API at its default port, which another test's would find in use.
    pub fn start(&self) -> Result<Server, String> {
        let begin = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        let mut server = self.spawn();
        match read_ready(&mut server.child) {
            Some((address, kubeconfig)) => {
                assert!(!address.ends_with(":6443"), "the test's server needs --listen 127.0.0.1:0");
                server.address = address;
                server.kubeconfig = kubeconfig;
                Ok(server)
            }
            None => {
                // No ready message: the program has ended, or is killed by the guard.
                drop(server);
                let log = std::fs::read(&self.log).expect("the log can be read");
                Err(String::from_utf8_lossy(&log[usize::try_from(begin).expect("a log is small")..])
                    .into_owned())
            }
        }
    }

    /// Starts the program and kills it when `moment` completes, ready or not.
    pub async fn start_and_kill(&self, moment: impl Future<Output = ()>) {
        let server = self.spawn();
        moment.await;
        server.kill();
    }

    /// Starts the program without waiting, for components without an apiserver, which print no ready message.
    pub fn start_silent(&self) -> Server {
        self.spawn()
    }

    fn spawn(&self) -> Server {
        let log = File::options().create(true).append(true).open(&self.log).expect("the log can be written");
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let child = command.spawn().expect("the program starts");
        Server { child, address: String::new(), kubeconfig: PathBuf::new() }
    }
}

/// A running server, killed on drop.
pub struct Server {
    child: Child,
    address: String,
    kubeconfig: PathBuf,
}

impl Server {
    /// The API's URL: `https://host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A new connection as the administrator.
    pub async fn client(&self, agent: &str) -> Client {
        let kubeconfig = Kubeconfig::read(&self.kubeconfig).expect("the server wrote a good kubeconfig");
        Client::connect(&kubeconfig, agent).await.expect("a ready server accepts connections")
    }

    /// A kubectl command as the administrator; `None` if kubectl is not installed.
    pub fn kubectl(&self, args: &[&str]) -> Option<Command> {
        let found = Command::new("kubectl")
            .args(["version", "--client"])
            .output()
            .is_ok_and(|out| out.status.success());
        found.then(|| {
            let mut command = Command::new("kubectl");
            command.arg("--kubeconfig").arg(&self.kubeconfig).args(args);
            command
        })
    }

    /// The processor time of the process, of all its threads, user and system: other programs do not add to it.
    ///
    /// # Panics
    ///
    /// The process has ended, or the system is not Linux.
    pub fn processor_time(&self) -> Duration {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(path).expect("the server runs");
        // The name of the program, in parentheses, may have spaces. 11 fields follow it, then utime and stime.
        let (_, fields) = stat.rsplit_once(')').expect("the name ends");
        let ticks = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>());
        let ticks: u64 = ticks.map(|ticks| ticks.expect("a number")).sum();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }

    /// Bytes of the process's memory that are resident.
    ///
    /// # Panics
    ///
    /// The process has ended, or the system is not Linux.
    pub fn resident_bytes(&self) -> usize {
        self.memory("VmRSS:").expect("the server runs")
    }

    /// The most bytes that were resident since the start, or since [`Server::forget_peak`]; `None` if the process has ended.
    pub fn peak_bytes(&self) -> Option<usize> {
        self.memory("VmHWM:")
    }

    /// Begins [`Server::peak_bytes`] anew.
    ///
    /// # Panics
    ///
    /// The process has ended, or the system is not Linux.
    pub fn forget_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("the server runs");
    }

    /// A line of the process's memory in bytes; `None` if the process has ended.
    fn memory(&self, name: &str) -> Option<usize> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().trim_end_matches(" kB").parse::<usize>().ok()? * 1024)
    }

    /// Sends SIGKILL, which the process cannot handle, and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("a killed process ends");
    }

    /// Sends SIGSTOP: the process pauses, and its connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Sends SIGCONT: the process continues.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the server runs");
    }

    /// Sends SIGTERM and returns the exit status: that of SIGKILL if the server does not end within [`PATIENCE`].
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let (pid, (ending, ended)) = (self.pid(), mpsc::channel::<()>());
        std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Fails only if the server has just ended.
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        let status = self.child.wait().expect("a process can be waited for");
        drop(ending);
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads address and kubeconfig from the server's ready message.
fn read_ready(child: &mut Child) -> Option<(String, PathBuf)> {
    let stdout = child.stdout.take().expect("stdout is a pipe");
    let (found, ready) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut address, mut kubeconfig) = (None, None);
        // Reads to the end: a full pipe must not block the server.
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match line.trim().split_once("  ") {
                Some(("address", value)) => address = Some(value.trim().to_owned()),
                Some(("kubeconfig", value)) => kubeconfig = Some(PathBuf::from(value.trim())),
                _ => {}
            }
            if let (Some(address), Some(kubeconfig)) = (&address, &kubeconfig) {
                // The receiver reads only the first message.
                let _ = found.send((address.clone(), kubeconfig.clone()));
            }
        }
    });
    ready.recv_timeout(PATIENCE).ok()
}

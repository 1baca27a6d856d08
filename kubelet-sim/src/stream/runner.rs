//! Runs simulated shells on threads of their own, never on those that serve requests, and not faster than their container and
//! namespace may: who does more work waits.

use super::disks::with_root;
use super::network::{Arrived, PodNetwork, unslept};
use crate::limits::{
    CONTAINER_WORK_PER_SECOND, HOST_PATHS, NAMESPACE_WORK_PER_SECOND, PROGRAM_THREADS, WORK_BURST,
};
use kstore_container_sim::{
    BufferAllowance, BufferCapacity, Disk, DiskCapacity, DiskEntry, Environment, Killed, NetworkCall,
    NetworkFailure, NetworkReply, ProgramNotFound, Shell, ShellStep, WorkMeter,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What the programs of one namespace may use together.
pub(crate) struct NamespaceBudget {
    buffers: BufferCapacity,
    pub(crate) disks: DiskCapacity,
    pace: Pace,
}

impl NamespaceBudget {
    /// The memory of what the API server does in the namespace's pods.
    pub(crate) fn allowance(&self) -> BufferAllowance {
        self.buffers.allowance()
    }
}

/// What the programs of one container may use together.
pub(crate) struct ContainerBudget {
    pub(crate) buffers: BufferCapacity,
    pace: Pace,
    namespace: Arc<NamespaceBudget>,
}

impl ContainerBudget {
    pub(crate) fn new(namespace: &Arc<NamespaceBudget>) -> Self {
        let pace = Pace::new(CONTAINER_WORK_PER_SECOND);
        Self { buffers: namespace.buffers.container(), pace, namespace: Arc::clone(namespace) }
    }

    /// Counts work for the container, and waits until it is paid.
    pub(crate) async fn pay(&self, work: u64) {
        let now = Instant::now();
        let waits = [&self.pace, &self.namespace.pace].map(|pace| pace.charge(work, now));
        let wait = waits[0].max(waits[1]);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

/// The time at which all work so far is paid, at a rate of units of work a second.
struct Pace {
    rate: u64,
    paid_at: Mutex<Option<Instant>>,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Self { rate, paid_at: Mutex::new(None) }
    }

    /// Counts work; returns the wait until more may be done.
    fn charge(&self, work: u64, now: Instant) -> Duration {
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = Duration::from_micros(work.saturating_mul(1_000_000) / self.rate);
        let until = paid_at.map_or(now, |paid_at| paid_at.max(now)) + cost;
        *paid_at = Some(until);
        until.saturating_duration_since(now).saturating_sub(WORK_BURST)
    }
}

/// The threads and budgets of the programs of one simulation. Clones share them.
#[derive(Clone)]
pub(crate) struct ProgramRunner {
    threads: Arc<Semaphore>,
    namespaces: Arc<Mutex<BTreeMap<String, Arc<NamespaceBudget>>>>,
    buffers: BufferCapacity,
    disks: DiskCapacity,
    /// Host paths by node and path, which the pods of a node share.
    host_paths: Arc<Mutex<BTreeMap<(String, String), Disk>>>,
}

impl ProgramRunner {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            threads: Arc::new(Semaphore::new((processors / 2).clamp(1, PROGRAM_THREADS))),
            namespaces: Arc::default(),
            buffers: BufferCapacity::default(),
            disks: DiskCapacity::default(),
            host_paths: Arc::default(),
        }
    }

    /// The disk of a path on a simulated node, whose root is like `root` at first. Beyond the bound it is a new one each time.
    pub(crate) fn host_path(
        &self,
        (node, path): (&str, &str),
        root: &DiskEntry,
        capacity: &DiskCapacity,
    ) -> Disk {
        let mut all = self.host_paths.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (node.to_owned(), path.trim_end_matches('/').to_owned());
        if let Some(disk) = all.get(&key) {
            return disk.clone();
        }
        let disk = with_root(root, capacity);
        if all.len() < HOST_PATHS {
            all.insert(key, disk.clone());
        }
        disk
    }

    /// The budget of a namespace. It is kept while a container of the namespace uses it.
    pub(crate) fn namespace(&self, name: &str) -> Arc<NamespaceBudget> {
        let mut all = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(budget) = all.get(name) {
            return Arc::clone(budget);
        }
        all.retain(|_, budget| Arc::strong_count(budget) > 1);
        let budget = Arc::new(NamespaceBudget {
            buffers: self.buffers.namespace(),
            disks: self.disks.namespace(),
            pace: Pace::new(NAMESPACE_WORK_PER_SECOND),
        });
        all.insert(name.to_owned(), Arc::clone(&budget));
        budget
    }

    /// Starts a command of a container.
    pub(crate) async fn start(
        &self,
        budget: Arc<ContainerBudget>,
        environment: Environment,
        argv: Vec<String>,
    ) -> Result<ProgramRun, ProgramNotFound> {
        let work = environment.work.clone();
        let mut run = ProgramRun {
            shell: None,
            threads: Arc::clone(&self.threads),
            budget,
            work,
            paid: 0,
            network: None,
            calls: JoinSet::new(),
            arrived: None,
        };
        let program = argv.first().cloned().unwrap_or_default();
        let started = run.on_thread(move || Shell::run(environment, &argv)).await;
        run.shell = Some(started.unwrap_or(Err(ProgramNotFound(program)))?);
        Ok(run)
    }
}

/// A running command.
pub(crate) struct ProgramRun {
    /// `None` while a thread has it, and after a panic there.
    shell: Option<Shell>,
    threads: Arc<Semaphore>,
    budget: Arc<ContainerBudget>,
    work: WorkMeter,
    /// Work that is charged already.
    paid: u64,
    /// Its place in the network.
    network: Option<PodNetwork>,
    /// Calls on the network that are under way.
    calls: JoinSet<(u64, NetworkReply)>,
    /// A call that has ended, and is not passed on yet.
    arrived: Option<Arrived>,
}

impl ProgramRun {
    /// Runs `job`, in a program of several threads on one for programs, then waits until its work is paid. `None` if the job panicked.
    async fn on_thread<R: Send + 'static>(&mut self, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        let done = match Handle::current().runtime_flavor() {
            // A simulation in one thread, whose order must depend on the seed alone.
            RuntimeFlavor::CurrentThread => Some(job()),
            _ => self.spawned(job).await,
        };
        let total = self.work.total();
        let work = total - self.paid;
        self.paid = total;
        self.budget.pay(work).await;
        done
    }

    /// Runs `job` on a thread for programs. `None` if it panicked.
    async fn spawned<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        // The semaphore is never closed. The thread holds the permit, because a job goes on when this future is dropped.
        let permit = Arc::clone(&self.threads).acquire_owned().await.ok()?;
        let job = move || {
            let result = job();
            drop(permit);
            result
        };
        let done = tokio::task::spawn_blocking(job).await;
        if let Err(error) = &done {
            tracing::error!(%error, "a simulated program failed");
        }
        done.ok()
    }

    async fn with<R: Send + 'static>(
        &mut self,
        act: impl FnOnce(&mut Shell) -> R + Send + 'static,
    ) -> Option<R> {
        let mut shell = self.shell.take()?;
        let job = move || {
            let result = act(&mut shell);
            (shell, result)
        };
        let (shell, result) = self.on_thread(job).await?;
        self.shell = Some(shell);
        Some(result)
    }

    /// Gives the command its place in the network.
    pub(super) fn connected(mut self, network: PodNetwork) -> Self {
        self.network = Some(network);
        self
    }

    /// Waits so long, or until a call on the network has ended. Cancel-safe.
    pub(crate) async fn wait(&mut self, time: Duration) {
        let begun = Instant::now();
        tokio::select! {
            biased;
            Some(done) = self.calls.join_next(), if !self.calls.is_empty() => {
                // A call that panicked is reported where it did; its process waits on.
                if let Ok((number, reply)) = done {
                    self.arrived = Some(Arrived { number, reply, unslept: unslept(time, begun) });
                }
            }
            () = tokio::time::sleep(time) => {}
        }
    }

    fn begin_call(&mut self, number: u64, call: NetworkCall) {
        match &self.network {
            Some(network) => {
                let reply = network.clone().perform(call);
                self.calls.spawn(async move { (number, reply.await) });
            }
            None => {
                let reply = NetworkReply::failed(NetworkFailure::Exhausted);
                self.arrived = Some(Arrived { number, reply, unslept: Duration::ZERO });
            }
        }
    }

    /// Advances to the next thing that the caller must do, which is neither [`ShellStep::Yield`] nor [`ShellStep::Network`].
    pub(crate) async fn step(&mut self) -> ShellStep {
        loop {
            if let Some(Arrived { number, reply, unslept }) = self.arrived.take() {
                self.with(move |shell| shell.network(number, reply, unslept)).await;
            }
            match self.with(Shell::step).await {
                Some(ShellStep::Yield) => tokio::task::yield_now().await,
                Some(ShellStep::Network(number, call)) => self.begin_call(number, *call),
                Some(step) => return step,
                None => return ShellStep::Exit(137),
            }
        }
    }

    /// Sends a signal to the command, `unslept` before the end of its latest sleep.
    pub(crate) async fn signal(&mut self, signal: u8, unslept: Duration) {
        self.with(move |shell| shell.signal(signal, unslept)).await;
    }

    /// Passes input, or its end, to the command that waits for it.
    pub(crate) async fn input(&mut self, bytes: Option<Vec<u8>>) {
        self.with(move |shell| shell.input(bytes.as_deref())).await;
    }

    /// Passes a line of input, or its end.
    pub(crate) async fn line(&mut self, line: Option<String>) {
        self.with(move |shell| shell.line(line.as_deref())).await;
    }

    /// Sets the size of the terminal.
    pub(crate) fn resized(&mut self, rows: u16, columns: u16) {
        if let Some(shell) = &mut self.shell {
            shell.resized(rows, columns);
        }
    }

    /// Whether the command was killed because its memory would exceed the limit.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.work.killed() == Some(Killed::Memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endless(runner: &ProgramRunner) -> (Arc<ContainerBudget>, Environment, Vec<String>) {
        let budget = Arc::new(ContainerBudget::new(&runner.namespace("a")));
        let environment = Environment { memory: budget.buffers.allowance(), ..Environment::default() };
        let script = "while true; do y=$(while true; do z=$(while true; do :; done); done); done";
        (budget, environment, ["sh", "-c", script].map(str::to_owned).into())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_endless_program_leaves_the_runtime_to_others() {
        let runner = ProgramRunner::new();
        let (budget, environment, argv) = endless(&runner);
        let hostile = tokio::spawn(async move {
            let mut run = runner.start(budget, environment, argv).await.unwrap();
            loop {
                if let ShellStep::Exit(code) = run.step().await {
                    return code;
                }
            }
        });
        // This runtime has one worker: ten ticks pass while the program works.
        for _ in 0..10 {
            let before = Instant::now();
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert!(before.elapsed() < Duration::from_secs(2));
        }
        hostile.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn work_beyond_the_burst_has_to_wait() {
        let pace = Pace::new(1_000_000);
        let now = Instant::now();
        assert_eq!(pace.charge(500_000, now), Duration::ZERO);
        assert_eq!(pace.charge(2_500_000, now), Duration::from_secs(3).saturating_sub(WORK_BURST));
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.charge(500_000, later), Duration::ZERO);
    }

    #[tokio::test]
    async fn the_budget_of_a_namespace_ends_with_its_last_container() {
        let runner = ProgramRunner::new();
        let first = runner.namespace("a");
        assert!(Arc::ptr_eq(&first, &runner.namespace("a")));
        drop(first);
        let _other = runner.namespace("b");
        assert_eq!(runner.namespaces.lock().unwrap().len(), 1);
    }
}

//! Brings requests to the writer: on the caller's thread in memory, through a bounded queue to a thread otherwise. Starts
//! and ends the threads.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::checkpoint::Background;
use crate::committer::Committer;
use crate::core::Core;
use crate::disk::real::DirLock;
use crate::error::Stopped;
use crate::feed::Feed;
use crate::queue::{Job, Queue};
use crate::request::{Answer, Refused, Request};
use crate::writer::Writer;

/// See the module.
pub(crate) struct Driver {
    core: Arc<Core>,
    mode: Mode,
}

enum Mode {
    /// No log: the caller's thread does everything.
    Memory(Mutex<Writer>),
    /// A log, but no threads: every step on the caller's thread, so that a test sees the same steps every time.
    #[cfg(test)]
    Stepped(Box<Mutex<Option<Steps>>>),
    Threads(Threads),
}

#[cfg(test)]
type Steps = (Committer, Background);

struct Threads {
    queue: Arc<Queue>,
    /// Until the store is closed.
    running: Mutex<Option<Running>>,
}

struct Running {
    writer: JoinHandle<()>,
    watch: JoinHandle<()>,
    background: JoinHandle<()>,
    _lock: Option<DirLock>,
}

impl Driver {
    pub(crate) fn in_memory(writer: Writer) -> Self {
        Self { core: writer.core.clone(), mode: Mode::Memory(Mutex::new(writer)) }
    }

    #[cfg(test)]
    pub(crate) fn stepped(core: Arc<Core>, committer: Committer, background: Background) -> Self {
        Self { core, mode: Mode::Stepped(Box::new(Mutex::new(Some((committer, background))))) }
    }

    /// Starts the threads: one writes, one delivers, one does the background's work.
    pub(crate) fn threads(
        core: Arc<Core>,
        committer: Committer,
        background: Background,
        lock: Option<DirLock>,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::new(&core.limits));
        let feed = Arc::new(Feed::default());
        let writer = {
            let (queue, feed) = (queue.clone(), feed.clone());
            thread::Builder::new()
                .name("kstore-writer".to_owned())
                .spawn(move || committer.run(&queue, &feed))?
        };
        let watch = {
            let core = core.clone();
            thread::Builder::new().name("kstore-watch".to_owned()).spawn(move || {
                let mut more = true;
                while more {
                    more = core.hub.wait();
                    core.deliver();
                }
            })?
        };
        let background = {
            let (core, queue) = (core.clone(), queue.clone());
            let run = move || run_background(background, &core, &queue, &feed);
            thread::Builder::new().name("kstore-background".to_owned()).spawn(run)?
        };
        let running = Mutex::new(Some(Running { writer, watch, background, _lock: lock }));
        Ok(Self { core, mode: Mode::Threads(Threads { queue, running }) })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Whether closing may take a while.
    pub(crate) fn has_threads(&self) -> bool {
        matches!(self.mode, Mode::Threads(_))
    }

    /// Resolves when the answer may go out. The request is done even if the future is dropped.
    pub(crate) async fn submit(&self, request: Request, bytes: usize) -> Result<Answer, Refused> {
        if self.core.serving().is_err() {
            return Err(Refused::Stopped);
        }
        match &self.mode {
            Mode::Memory(writer) => submit_in_memory(writer, &request).map_err(|Stopped| Refused::Stopped),
            #[cfg(test)]
            Mode::Stepped(steps) => {
                let mut answers = step(&self.core, &mut steps.lock(), vec![request])?;
                Ok(answers.pop().expect("a request has an answer"))
            }
            Mode::Threads(threads) => {
                let (reply, answer) = oneshot::channel();
                let pushed = threads.queue.push(Job { request, bytes: bytes + 64, reply });
                pushed.inspect_err(|_| self.core.metrics.busy.add(1))?;
                answer.await.map_err(|_| Refused::Stopped)
            }
        }
    }

    /// Does several requests as one group.
    #[cfg(test)]
    pub(crate) fn submit_group(&self, requests: Vec<Request>) -> Result<Vec<Answer>, Refused> {
        self.core.serving().map_err(|Stopped| Refused::Stopped)?;
        match &self.mode {
            Mode::Stepped(steps) => step(&self.core, &mut steps.lock(), requests),
            Mode::Memory(_) | Mode::Threads(_) => unreachable!("only a stepped store is given its groups"),
        }
    }

    /// Ends the store in order: what is queued is done, synced and checkpointed, what was published is delivered. Returns
    /// when the threads are gone and the directory is free. Later calls do nothing.
    pub(crate) fn close(&self) {
        self.core.refuse();
        match &self.mode {
            Mode::Memory(_) => self.core.close(),
            #[cfg(test)]
            Mode::Stepped(steps) => {
                self.core.close();
                let steps = steps.lock().take().filter(|_| !self.core.has_failed());
                if let Some((mut committer, mut background)) = steps {
                    let _ = committer.finish().map(|()| background.checkpoint());
                }
            }
            Mode::Threads(threads) => threads.close(&self.core),
        }
    }
}

impl Threads {
    fn close(&self, core: &Core) {
        self.queue.close();
        let mut running = self.running.lock();
        let Some(threads) = running.take() else { return };
        let own = thread::current().id();
        let join = |thread: JoinHandle<()>| {
            // The last handle may be dropped by a waker that one of our threads calls.
            if thread.thread().id() != own && thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        };
        join(threads.writer);
        core.hub.stop();
        join(threads.watch);
        core.close();
        join(threads.background);
        core.engine.close();
    }
}

fn submit_in_memory(writer: &Mutex<Writer>, request: &Request) -> Result<Answer, Stopped> {
    let mut writer = writer.lock();
    let answer = writer.execute(request);
    writer.commit_in_memory()?;
    Ok(answer)
}

#[cfg(test)]
fn step(core: &Core, steps: &mut Option<Steps>, requests: Vec<Request>) -> Result<Vec<Answer>, Refused> {
    let (committer, background) = steps.as_mut().ok_or(Refused::Stopped)?;
    let (mut jobs, mut answers) = (Vec::new(), Vec::new());
    for request in requests {
        let (reply, answer) = oneshot::channel();
        jobs.push(Job { request, bytes: 0, reply });
        answers.push(answer);
    }
    let done = committer.group(&mut jobs).map_err(|error| error.to_string());
    let done = done.and_then(|commits| {
        core.deliver();
        let prepared = if committer.wants_spare() { background.prepare() } else { Ok(()) };
        prepared.map_err(|error| error.to_string())?;
        background.absorb(&commits).map_err(|error| error.to_string())?;
        while background.tidy().map_err(|error| error.to_string())? {}
        Ok(())
    });
    if let Err(error) = done {
        core.fail("a step failed", &error);
    }
    let answers = answers.into_iter().map(|mut answer| answer.try_recv().map_err(|_| Refused::Stopped));
    answers.collect()
}

/// The background's thread. Afterwards nobody waits for it.
fn run_background(mut background: Background, core: &Core, queue: &Queue, feed: &Feed) {
    /// Does so also if it panicked.
    struct Ending<'a>(&'a Core, &'a Queue, &'a Feed);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            let Self(core, queue, feed) = self;
            if thread::panicking() {
                core.fail("the background panicked", &"see above");
            }
            if core.has_failed() {
                queue.abandon();
            }
            feed.break_off();
        }
    }
    let _ending = Ending(core, queue, feed);
    if let Err(error) = serve_background(&mut background, feed) {
        core.fail("the history engine failed", &error);
    }
}

fn serve_background(background: &mut Background, feed: &Feed) -> Result<(), crate::engine::EngineError> {
    background.resume()?;
    let mut untidy = true;
    loop {
        let work = feed.take(!untidy);
        if work.prepare
            && let Err(error) = background.prepare()
        {
            // Not needed yet: the writer makes its own file when it has to.
            tracing::warn!(%error, "the next log file could not be prepared");
        }
        let idle = work.commits.is_empty();
        background.absorb(&work.commits)?;
        if work.closed && idle {
            return background.checkpoint();
        }
        untidy = !work.closed
            && match background.tidy() {
                Ok(more) => more,
                Err(error) => {
                    tracing::error!(%error, "space cannot be won back");
                    false
                }
            };
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.close();
    }
}

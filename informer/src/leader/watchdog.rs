//! [`Watchdog`]: last resort against work that blocks its executor and so cannot be dropped. It runs on its
//! own thread, because the executor's threads may be blocked, and in real time, because other candidates wait
//! in real time.

use parking_lot::{Condvar, Mutex};
use std::process::abort;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, thread};

/// Action for a leader whose work still runs when its lease is about to expire. It fires after the renew
/// deadline and the grace, halfway between them and the end of the lease. Off unless passed to an elector.
///
/// It costs one sleeping thread while the candidate leads. Not for tests with paused time, where hours of
/// work take no real time.
#[derive(Clone)]
pub struct Watchdog(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watchdog")
    }
}

impl Watchdog {
    /// A watchdog that aborts the process, which a service manager then restarts.
    pub fn abort() -> Self {
        Self::call(|name| {
            tracing::error!(
                name,
                "work is still running although its lease is about to expire; aborting the process"
            );
            abort();
        })
    }

    /// A watchdog that calls `bite` with the name of the election, at most once per term, on the watchdog's
    /// thread.
    pub fn call(bite: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(bite))
    }

    /// Watches one term, which may last for `time` from now unless it is renewed.
    pub(super) fn watch(&self, name: &str, time: Duration) -> Watch {
        let shared = Arc::new(Shared { term: Mutex::new(TermState::Until(time)), changed: Condvar::new() });
        let (theirs, bite, name) = (shared.clone(), self.0.clone(), name.to_owned());
        let thread = thread::Builder::new().name("watchdog".into());
        let spawned = thread.spawn(move || {
            if theirs.outlasts() {
                bite(&name);
            }
        });
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot start the watchdog's thread");
        }
        Watch(shared)
    }
}

/// Watchdog of one term; dropping it ends the watch.
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    /// Extends the term to `time` from now.
    pub(super) fn renewed(&self, time: Duration) {
        *self.0.term.lock() = TermState::Until(time);
        self.0.changed.notify_one();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.term.lock() = TermState::Over;
        self.0.changed.notify_one();
    }
}

#[derive(Clone, Copy)]
enum TermState {
    /// Renewed; the watchdog thread has not started to wait for it.
    Until(Duration),
    /// The watchdog thread waits for the end.
    Waiting,
    Over,
}

struct Shared {
    term: Mutex<TermState>,
    changed: Condvar,
}

impl Shared {
    /// Waits for the end of the term. Returns true if the term outlasts its time.
    fn outlasts(&self) -> bool {
        let mut term = self.term.lock();
        loop {
            match *term {
                TermState::Over => return false,
                TermState::Waiting => return true,
                TermState::Until(time) => {
                    *term = TermState::Waiting;
                    let waiting = |term: &mut TermState| matches!(term, TermState::Waiting);
                    self.changed.wait_while_for(&mut term, waiting, time);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::Connection;
    use crate::{Elector, ElectorOptions};
    use kstore_nondet::Nondet;
    use std::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    #[test]
    fn the_watchdog_fires_only_for_a_term_that_outlasts_its_time() {
        let (bitten, bites) = mpsc::channel();
        let dog = Watchdog::call(move |name| bitten.send(name.to_owned()).unwrap());
        let watch = dog.watch("ends", Duration::from_secs(3_600));
        watch.renewed(Duration::from_secs(7_200));
        drop(watch);
        let _outlasting = dog.watch("outlasts", Duration::ZERO);
        assert_eq!(bites.recv().unwrap(), "outlasts");
        drop(dog);
        assert!(bites.recv().is_err(), "no other bite, and the threads have ended");
    }

    /// Work that blocks its only thread, so that neither renewals nor the deadline run.
    #[tokio::test]
    async fn the_watchdog_detects_work_that_blocks_its_executor() {
        let (bitten, bites) = mpsc::channel::<()>();
        let bites = std::sync::Mutex::new(bites);
        let second = Duration::from_secs(1);
        let options = ElectorOptions {
            lease: 2 * second,
            renew: second.mul_f64(1.3),
            retry: second,
            ..ElectorOptions::new("a")
        };
        let connection = Connection::new(&Default::default(), None, 1.0);
        let elector = Elector::with(connection, options, Nondet::simulated(1)).unwrap();
        let elector = elector.watchdog(Watchdog::call(move |_| bitten.send(()).unwrap()));
        let blocking = |_| async { bites.lock().unwrap().recv().unwrap() };
        elector.run(CancellationToken::new(), blocking).await;
    }
}

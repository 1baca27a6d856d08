//! [`Gate`]: holds the paused clock of a one-threaded tokio runtime. tokio moves such a clock to the next timer when no task is ready, but
//! not while a blocking task of the runtime runs; a closed gate is such a task.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// A gate between a runtime's clock and the next timer. Each cluster has one, with a thread of the runtime that waits in it while it is
/// closed.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    opened: Condvar,
}

/// Generations of a gate: each closing has a number, so that a waiting task and a new closing do not mix.
#[derive(Debug, Default)]
struct GateState {
    /// Number of times the gate was closed.
    closed: u64,
    /// The closing that was last opened. The gate is open if it equals `closed`.
    opened: u64,
    /// Whether the gate stays open, because the cluster ends.
    has_ended: bool,
}

impl Gate {
    /// Stops the clock at once. Must be called on the runtime's thread. Without effect if the gate is closed or has ended.
    pub fn close(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if state.has_ended || state.closed > state.opened {
            return;
        }
        state.closed += 1;
        let generation = state.closed;
        drop(state);
        let gate = self.clone();
        // The clock stands from this call on, also before the task begins.
        drop(tokio::task::spawn_blocking(move || gate.wait(generation)));
    }

    /// Lets the clock pass to the next timers once no task is ready. From any thread.
    pub fn open(&self) {
        let mut state = self.state.lock();
        state.opened = state.closed;
        self.opened.notify_all();
    }

    /// Opens the gate for good, so that the runtime can end.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        self.open();
    }

    fn wait(&self, generation: u64) {
        let mut state = self.state.lock();
        while state.opened < generation {
            self.opened.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{Instant, sleep, sleep_until};

    /// A thread of real time that sends a message to the paused runtime.
    fn after_real_time(send: tokio::sync::oneshot::Sender<()>) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            std::thread::park_timeout(Duration::from_millis(30));
            let _ = send.send(());
        })
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_stands_while_the_gate_is_closed_and_passes_when_it_is_open() {
        let (gate, begin) = (Arc::new(Gate::default()), Instant::now());
        gate.close();
        gate.close();
        let timer = tokio::spawn(sleep(Duration::from_secs(3600)));
        let (send, receive) = tokio::sync::oneshot::channel();
        let other = after_real_time(send);
        receive.await.unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO, "another thread thinks, and no time passes");
        gate.open();
        timer.await.unwrap();
        gate.close();
        assert_eq!(begin.elapsed(), Duration::from_secs(3600));
        let late = tokio::spawn(sleep_until(begin + Duration::from_secs(7200)));
        let (send, receive) = tokio::sync::oneshot::channel();
        let another = after_real_time(send);
        receive.await.unwrap();
        assert_eq!(begin.elapsed(), Duration::from_secs(3600), "closed again");
        gate.end();
        gate.close();
        late.await.unwrap();
        other.join().unwrap();
        another.join().unwrap();
    }
}

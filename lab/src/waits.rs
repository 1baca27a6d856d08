//! Waits of clients for a time of the cluster (`/clock/wait`): deadlines at which the clock stops, so that timers of programs fire in order
//! with the cluster's own.

use crate::error;
use crate::host::Running;
use crate::limits;
use jiff::Timestamp;
use kstore_api::status::Status;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The waits of one cluster.
#[derive(Debug, Default)]
pub struct TimeWaits {
    /// Number of waits by time.
    waiting: Mutex<BTreeMap<Timestamp, usize>>,
    /// Signals the begin of each wait.
    pub(crate) began: Notify,
}

impl TimeWaits {
    /// The earliest deadline.
    pub fn next(&self) -> Option<Timestamp> {
        self.waiting.lock().keys().next().copied()
    }

    /// Number of waits.
    pub fn count(&self) -> usize {
        self.waiting.lock().values().sum()
    }

    /// Waits until the cluster's time is there. The clock stops at that time for a barrier.
    ///
    /// # Errors
    /// 429: too many clients wait. 410: the cluster ended.
    pub async fn until(self: &Arc<Self>, running: &Arc<Running>, time: Timestamp) -> Result<(), Status> {
        let wait = self.begin(time)?;
        let (driver, clock) = (running.driver.clone(), running.plane.nondet().clock);
        let waiting = running.call(async move {
            // Again after a leap backward, by which the time is later than it was.
            loop {
                let left = Duration::try_from(time.duration_since(clock.now())).unwrap_or_default();
                if left.is_zero() {
                    break;
                }
                tokio::time::sleep(left).await;
                driver.note_traffic();
            }
        });
        let ended = waiting.await.map_err(|_| error::ended());
        drop(wait);
        ended
    }

    fn begin(self: &Arc<Self>, time: Timestamp) -> Result<Wait, Status> {
        let most = limits::TIME_WAITS;
        let mut waiting = self.waiting.lock();
        if waiting.values().sum::<usize>() >= most {
            return Err(error::too_many("waits for time", most, "too many clients wait for a time"));
        }
        *waiting.entry(time).or_default() += 1;
        drop(waiting);
        self.began.notify_waiters();
        Ok(Wait { waits: self.clone(), time })
    }
}

/// One wait; it ends when this is dropped.
struct Wait {
    waits: Arc<TimeWaits>,
    time: Timestamp,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.waits.waiting.lock();
        if let Some(count) = waiting.get_mut(&self.time) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded_and_the_earliest_is_next() {
        let waits = Arc::new(TimeWaits::default());
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let first = waits.begin(at(5)).unwrap();
        let others: Vec<_> = (0..limits::TIME_WAITS - 1).map(|_| waits.begin(at(9)).unwrap()).collect();
        assert_eq!(waits.begin(at(1)).err().map(|status| status.code), Some(429));
        assert_eq!(waits.next(), Some(at(5)));
        drop(first);
        assert_eq!(waits.next(), Some(at(9)));
        drop(others);
        assert_eq!(waits.next(), None);
    }
}

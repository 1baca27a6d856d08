//! The end of a run: its state is that of a reference and stays so, or nothing is written any more.

use super::{ActiveRun, RunError, RunRequest, collect};
use crate::limits;
use crate::normalise::differences;
use crate::oracle::busiest;
use crate::record::{ObjectKey, RecordedWrite, RunEnd};
use kstore_lab::settle::{Settle, Settled, settle};
use kstore_nondet::Clock;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time of the cluster for which an end state must stay.
const STAYS: Duration = Duration::from_secs(60);
/// Real time for which an end state must stay.
const STAYS_REAL: Duration = Duration::from_millis(250);
/// Time of the cluster that passes before a state that equals no reference's is the end state.
const PASSES: Duration = Duration::from_secs(30 * 60);
/// Time of the cluster that passes at once.
const PORTION: Duration = Duration::from_secs(5 * 60);
/// Time of the cluster that one wait for rest may let pass.
const SETTLE: Duration = Duration::from_secs(10 * 60);
/// Real time after the last step for which an action of the plan may be under way.
const HELD: Duration = Duration::from_secs(1);
/// A run that took this part of its time to converge is late.
const LATE: u32 = 2;

impl ActiveRun<'_> {
    /// Waits for the end, and says whether it came late.
    pub(super) async fn converge(&mut self, request: &RunRequest<'_>) -> Result<(RunEnd, bool), RunError> {
        let (clock, mut passed) = (Clock::real(), Duration::ZERO);
        let begin = clock.now();
        let since =
            |from: jiff::Timestamp| Duration::try_from(clock.now().duration_since(from)).unwrap_or_default();
        let steps_done = self.revision();
        let (mut written, mut revision, mut starting) = (begin, steps_done, None);
        loop {
            let settled = self.settled().await?;
            self.revive().await?;
            if settled.settled && !self.is_underway() && !self.is_down() && self.equals_reference(request) {
                self.idle(STAYS, STAYS_REAL).await?;
                let again = self.settled().await?;
                self.revive().await?;
                if again.settled && !self.is_down() && self.equals_reference(request) {
                    return Ok((RunEnd::Converged, since(begin) > self.limits.total / LATE));
                }
            }
            if self.is_held() && since(begin) >= HELD {
                // Its trigger can no longer come: the run gives no verdict.
                return Ok((RunEnd::Quiet, false));
            }
            if !settled.settled && self.is_looping(steps_done).await? {
                return Ok((RunEnd::Looping, false));
            }
            if self.revision() != revision || self.is_any_starting(&mut starting).await {
                (written, revision) = (clock.now(), self.revision());
            }
            if settled.settled && passed >= PASSES && since(written) >= self.silence() {
                return Ok((RunEnd::Quiet, false));
            }
            if self.is_over() {
                let busy: Vec<String> = settled.busy.iter().map(|busy| busy.line()).collect();
                let busy =
                    if busy.is_empty() { vec!["objects are still being written".to_owned()] } else { busy };
                return Ok((if settled.settled { RunEnd::Quiet } else { RunEnd::Busy(busy) }, false));
            }
            let portion = if passed < PASSES { PORTION } else { Duration::ZERO };
            self.idle(portion, STAYS_REAL).await?;
            passed += portion;
        }
    }

    /// Whether one client has written one object more often within a short real time than any that converges does.
    async fn is_looping(&self, steps_done: i64) -> Result<bool, RunError> {
        let (_, writes) =
            collect::traffic(&self.current, steps_done, self.began, &self.prepared.users()).await?;
        let now = u64::try_from(self.elapsed().as_millis()).unwrap_or(0);
        let window = u64::try_from(limits::HOT_WINDOW.as_millis()).unwrap_or(0);
        let programs = self.prepared.programs();
        let is_programs = |client: &String| programs.contains(client);
        let mut by_object: BTreeMap<(&str, &ObjectKey), Vec<&RecordedWrite>> = BTreeMap::new();
        for write in writes.iter().filter(|write| write.real + window >= now && is_programs(&write.client)) {
            by_object.entry((&write.client, &write.key)).or_default().push(write);
        }
        Ok(by_object.values().any(|writes| busiest(writes).is_some()))
    }

    pub(super) fn revision(&self) -> i64 {
        self.current.running().store().revision().0
    }

    async fn settled(&self) -> Result<Settled, RunError> {
        let how = Settle { limit: SETTLE, patience: self.patience(), is_virtual: true };
        let settled = settle(self.current.bridge.settling(), how).await;
        settled.map_err(RunError::lab("the fork has ended"))
    }

    /// Lets time of the cluster pass, and real time.
    async fn idle(&self, by: Duration, real: Duration) -> Result<(), RunError> {
        tokio::time::sleep(real).await;
        match by.is_zero() {
            true => Ok(()),
            false => self.pass(by).await.map_err(RunError::lab("the fork has ended")),
        }
    }

    /// Whether the state is that of a reference. Without references every state is.
    fn equals_reference(&self, request: &RunRequest<'_>) -> bool {
        let Some((normaliser, references)) = request.comparison else { return true };
        let state = normaliser.normalise(&collect::state(&self.current));
        references.iter().any(|reference| differences(&reference.end, &state).is_empty())
    }
}

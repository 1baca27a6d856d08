//! [`Undecided`]: a decision about a write ended without a result. Decisions (`admission`, `pipeline`, the
//! closures of `registry::guaranteed_update`) are synchronous functions of a state. A decision that needs an
//! answer from outside the process returns a future to its caller, and is called again after that future has
//! completed. `admission::dynamic` and `outbound` make the calls.

use futures::future::BoxFuture;
use kstore_api::status::Status;
use kstore_storage::limits::DECISION_ANSWERS;
use std::fmt;

/// A decision about a write has no result: the reason.
pub enum Undecided {
    /// The write is refused.
    Refused(Status),
    /// The decision needs what this future obtains, for example the answer of an admission webhook. The
    /// caller awaits the future, holding no lock, and makes the decision again from the start, on the newest
    /// state. The second decision finds the answer.
    Pending(BoxFuture<'static, ()>),
}

impl From<Status> for Undecided {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl fmt::Debug for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => f.debug_tuple("Refused").field(status).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Repeats a decision until it has a result, awaiting the futures that it needs.
///
/// # Errors
/// The refusal; 500 if the decision needs more than [`DECISION_ANSWERS`] futures.
pub async fn decided<T>(mut decide: impl FnMut() -> Result<T, Undecided> + Send) -> Result<T, Status> {
    let mut attempts = Attempts::default();
    loop {
        if let Some(decision) = attempts.settle(decide()).await? {
            return decision;
        }
    }
}

/// The attempts of one decision that ended pending.
#[derive(Debug, Default)]
pub(crate) struct Attempts(usize);

impl Attempts {
    /// The outcome of an attempt; `None` if it was pending, after what it needs is there: decide again.
    ///
    /// # Errors
    /// 500 after [`DECISION_ANSWERS`] pending attempts.
    pub(crate) async fn settle<T>(
        &mut self,
        attempt: Result<T, Undecided>,
    ) -> Result<Option<Result<T, Status>>, Status> {
        match attempt {
            Ok(decision) => Ok(Some(Ok(decision))),
            Err(Undecided::Refused(status)) => Ok(Some(Err(status))),
            Err(Undecided::Pending(_)) if self.0 == DECISION_ANSWERS => {
                Err(Status::internal(format!("no decision after {DECISION_ANSWERS} answers of webhooks")))
            }
            Err(Undecided::Pending(answer)) => {
                self.0 += 1;
                answer.await;
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[tokio::test]
    async fn a_pending_decision_is_repeated_after_its_answer() {
        let answers = Arc::new(Mutex::new(Vec::new()));
        let decision = decided(|| {
            let known = answers.lock().len();
            if known < 3 {
                let answers = answers.clone();
                return Err(Undecided::Pending(Box::pin(async move { answers.lock().push(known) })));
            }
            Ok(answers.lock().clone())
        });
        assert_eq!(decision.await.unwrap(), [0, 1, 2]);
    }

    #[tokio::test]
    async fn a_decision_that_always_needs_another_answer_ends() {
        let endless = decided(|| Err::<(), _>(Undecided::Pending(Box::pin(async {})))).await.unwrap_err();
        assert_eq!(endless.code, 500);
    }

    #[tokio::test]
    async fn a_refusal_ends_a_decision() {
        let refused = decided(|| Err::<(), _>(Status::bad_request("no").into())).await.unwrap_err();
        assert_eq!(refused.message, "no");
    }
}

//! [`Failure`]: what follows from a failed run, where that is not what usually follows.

use std::{fmt::Display, time::Duration};

/// A failed run that says what is to follow. `?` makes a [`Failure::Retry`] of any error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// The key runs again after its back-off, which doubles with each failure.
    Retry(E),
    /// The key runs again after this time, and its back-off does not grow. For servers that say when to come back.
    RetryIn(E, Duration),
    /// Only a change can help: the key is not run again because of this failure.
    Terminal(E),
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Self::Retry(error)
    }
}

/// What a reconcile function may fail with: anything that can be shown, which is retried, or a [`Failure`].
pub trait IntoFailure {
    /// What went wrong.
    type Error: Display;
    /// With what is to follow.
    fn into_failure(self) -> Failure<Self::Error>;
}

impl<E: Display> IntoFailure for E {
    type Error = E;
    fn into_failure(self) -> Failure<E> {
        Failure::Retry(self)
    }
}

impl<E: Display> IntoFailure for Failure<E> {
    type Error = E;
    fn into_failure(self) -> Self {
        self
    }
}

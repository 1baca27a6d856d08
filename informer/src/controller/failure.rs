//! [`Failure`]: the error of a reconcile run together with its retry policy.

use std::fmt::Display;
use std::time::Duration;

/// Error of a reconcile run with its retry policy. `?` converts any error into [`Failure::Retry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// Run the key again after its back-off, which doubles with each failure.
    Retry(E),
    /// Run the key again after this time without increasing its back-off. For servers that return
    /// `Retry-After`.
    RetryIn(E, Duration),
    /// Do not retry: only a change of the object can help.
    Terminal(E),
}

impl<E: Display + Send + 'static> Failure<E> {
    /// The same failure with its error behind a pointer, as a worker gets it: a worker only prints errors.
    pub(super) fn boxed(self) -> Failure<Box<dyn Display + Send>> {
        match self {
            Self::Retry(error) => Failure::Retry(Box::new(error)),
            Self::RetryIn(error, delay) => Failure::RetryIn(Box::new(error), delay),
            Self::Terminal(error) => Failure::Terminal(Box::new(error)),
        }
    }
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Self::Retry(error)
    }
}

/// Error type of a reconcile function: any `Display` type, which is retried, or a [`Failure`].
pub trait IntoFailure {
    /// The underlying error.
    type Error: Display;
    /// Converts the error into a [`Failure`] with its retry policy.
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

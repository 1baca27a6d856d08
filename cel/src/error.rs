//! Evaluation errors.

/// The error of an expression that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A map or object lacks the key.
    #[error("no such key: {0}")]
    NoSuchKey(Box<str>),
    /// The index is outside the list.
    #[error("index out of bounds: {0}")]
    IndexOutOfBounds(i64),
    /// The operation does not take values of these types.
    #[error("no such overload")]
    NoSuchOverload,
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// The remainder of a division by zero.
    #[error("modulus by zero")]
    ModulusByZero,
    /// The result does not fit into 64 signed bits.
    #[error("integer overflow")]
    IntegerOverflow,
    /// The result does not fit into 64 unsigned bits.
    #[error("unsigned integer overflow")]
    UnsignedOverflow,
    /// The result does not fit into a duration.
    #[error("duration overflow")]
    DurationOverflow,
    /// The result is not a timestamp between the years 1 and 9999.
    #[error("timestamp overflow")]
    TimestampOverflow,
    /// The activation has no value for the variable.
    #[error("no such attribute(s): {0}")]
    NoSuchVariable(Box<str>),
    /// The evaluation cost more than its limit.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimitExceeded,
    /// The caller's interrupt ended the evaluation.
    #[error("operation interrupted")]
    Interrupted,
    /// Any other error, with its message.
    #[error("{0}")]
    Other(Box<str>),
}

impl EvalError {
    /// An error with a message.
    #[must_use]
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other(message.into().into_boxed_str())
    }

    /// Whether the error ends the evaluation. `&&`, `||`, `all` and `exists` absorb all other errors.
    #[must_use]
    pub fn ends_evaluation(&self) -> bool {
        matches!(self, Self::CostLimitExceeded | Self::Interrupted)
    }
}

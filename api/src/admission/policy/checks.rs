//! [`PolicyCheck`]: data for metrics about policy expressions, with Kubernetes' names of errors and actions.
//! The caller has the counters.

use std::sync::Arc;
use std::time::Duration;

/// Error type of a policy expression in metrics. A false validation counts as [`Self::Invalid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckError {
    /// No error.
    None,
    /// The expression does not compile.
    Compile,
    /// The budget of the policy is exhausted.
    OutOfBudget,
    /// Any other error, or a false validation.
    Invalid,
}

impl CheckError {
    /// Error type of a message. Kubernetes too derives it from the start of the text.
    #[must_use]
    pub fn of_message(message: &str) -> Self {
        if message.starts_with("compilation") {
            Self::Compile
        } else if message.starts_with("validation failed due to running out of cost budget") {
            Self::OutOfBudget
        } else {
            Self::Invalid
        }
    }

    /// Value of the label `error_type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "no_error",
            Self::Compile => "compile_error",
            Self::OutOfBudget => "out_of_budget",
            Self::Invalid => "invalid_error",
        }
    }
}

/// Enforcement action of a validating policy in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforcement {
    /// An error was ignored.
    Allow,
    /// The request is refused.
    Deny,
    /// The failure is recorded in the audit log.
    Audit,
    /// The client gets a warning.
    Warn,
}

impl Enforcement {
    /// Value of the label `enforcement_action`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

/// One evaluated expression in metrics. For a validating policy: a failed or false validation, once for each
/// action of the binding. For a mutating policy: every mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyCheck {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// Name of the binding.
    pub binding: Arc<str>,
    /// Error type.
    pub error: CheckError,
    /// Enforcement action; `None` for mutations.
    pub enforcement: Option<Enforcement>,
    /// Duration of the evaluation.
    pub took: Duration,
}

/// Observer of the checks in one request, and clock for their durations.
pub trait CheckObserver {
    /// Time since a fixed moment.
    fn elapsed(&self) -> Duration;

    /// Called when a check has ended, in order.
    fn observe(&self, check: PolicyCheck);
}

/// Observer that ignores all checks and measures no time.
impl CheckObserver for () {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn observe(&self, _: PolicyCheck) {}
}

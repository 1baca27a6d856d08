//! [`PolicyCheck`]: what is counted about the expressions of policies, with Kubernetes' names of errors and actions. Not the counters.

use std::sync::Arc;
use std::time::Duration;

/// Why an expression did not let a request pass, as Kubernetes counts it. A validation that is false counts as [`Self::Invalid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckError {
    /// There is no error.
    None,
    /// The expression does not compile.
    Compile,
    /// The budget of the policy was spent.
    OutOfBudget,
    /// Anything else, or the validation is false.
    Invalid,
}

impl CheckError {
    /// The error that a message speaks of: upstream, too, tells them apart by how their texts begin.
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

    /// The value of the label `error_type`.
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

/// What a validating policy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforcement {
    /// An error was passed over.
    Allow,
    /// The request is refused.
    Deny,
    /// It is noted for the audit log.
    Audit,
    /// The client is warned.
    Warn,
}

impl Enforcement {
    /// The value of the label `enforcement_action`.
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

/// One evaluated expression that Kubernetes counts: of a validating policy, if it failed or is false, once for each action of the binding;
/// of a mutating one, each mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyCheck {
    /// Name of the policy.
    pub policy: Arc<str>,
    /// Name of the binding.
    pub binding: Arc<str>,
    /// How it ended.
    pub error: CheckError,
    /// What was done about it; `None` for mutations.
    pub enforcement: Option<Enforcement>,
    /// How long the expression took.
    pub took: Duration,
}

/// Is told of the checks of one request, in order, and brings the time that they take.
pub trait CheckObserver {
    /// The time since a fixed moment.
    fn elapsed(&self) -> Duration;

    /// A check has ended.
    fn observe(&self, check: PolicyCheck);
}

/// Counts nothing and measures nothing.
impl CheckObserver for () {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn observe(&self, _: PolicyCheck) {}
}

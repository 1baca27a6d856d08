//! [`RuntimeError`]: why a call of a runtime failed.

use std::fmt;
use tonic::{Code, Status};

/// Why a call of a runtime failed. Shown as Go's clients of gRPC show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeError {
    code: Code,
    message: String,
}

impl RuntimeError {
    /// An answer that lacks what it must have.
    pub(crate) fn incomplete(what: &str) -> Self {
        Self { code: Code::Internal, message: format!("the runtime's answer has no {what}") }
    }

    /// Whether the runtime does not know the sandbox, the container or the image.
    pub fn is_not_found(&self) -> bool {
        self.code == Code::NotFound
    }

    /// Whether the runtime does not have the call.
    pub fn is_unimplemented(&self) -> bool {
        self.code == Code::Unimplemented
    }

    /// Whether the time of the call, or of what it did, is over.
    pub fn is_timeout(&self) -> bool {
        self.code == Code::DeadlineExceeded
    }

    /// The text without the code.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<Status> for RuntimeError {
    fn from(status: Status) -> Self {
        let mut message = status.message().to_owned();
        // What is below the transport says why there is no connection.
        let mut source = std::error::Error::source(&status);
        while let Some(error) = source {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = error.source();
        }
        Self { code: status.code(), message }
    }
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self.code {
            Code::Ok => "OK".to_owned(),
            Code::Cancelled => "Canceled".to_owned(),
            code => format!("{code:?}"),
        };
        write!(f, "rpc error: code = {code} desc = {}", self.message)
    }
}

impl std::error::Error for RuntimeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shown_as_go_shows_them() {
        let error = RuntimeError::from(Status::not_found(
            "an error occurred when try to find container \"a\": not found",
        ));
        let text =
            "rpc error: code = NotFound desc = an error occurred when try to find container \"a\": not found";
        assert_eq!((error.to_string().as_str(), error.is_not_found()), (text, true));
        assert_eq!(
            RuntimeError::from(Status::cancelled("x")).to_string(),
            "rpc error: code = Canceled desc = x"
        );
    }
}

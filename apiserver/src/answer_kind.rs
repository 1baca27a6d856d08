//! [`AnswerKind`]: what the bytes of an answer are, as far as the bounds on unsent answers depend on it.

/// An extension of responses; without it, the answer has its bytes in memory as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// All answers share the bytes: a document that is kept anyway.
    Shared,
    /// The answer is made while it is sent.
    Streamed,
    /// A stream whose client may pause for as long as it wants, such as the log that somebody reads in a pager. The
    /// stream's own flow control bounds its bytes.
    Patient,
}

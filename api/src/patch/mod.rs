//! Patches: pure functions from the current object and a patch to the new object.
//!
//! [`json`] and [`merge`] do not depend on Kubernetes types; [`strategic`] reads list strategies from the
//! field table; [`apply`] tracks field ownership. None of them checks the result: decode, default and
//! validate it like any other body.

pub mod apply;
pub mod json;
pub mod merge;
pub mod strategic;

/// Patch type, by media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// JSON patch (RFC 6902).
    Json,
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Kubernetes' strategic merge patch, for built-in kinds only.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// All patch types, in Kubernetes' order.
    pub const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];

    /// The media type of the patch type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// The patch type of a Content-Type header; parameters after `;` are ignored.
    #[must_use]
    pub fn from_content_type(header: &str) -> Option<Self> {
        let media = header.split(';').next().unwrap_or_default().trim();
        Self::ALL.into_iter().find(|t| t.media_type() == media)
    }
}

/// Error of a patch that cannot be applied; each variant is one HTTP status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400: the patch is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 413: more work than one request may ask for.
    #[error("{0}")]
    TooLarge(String),
    /// 422: the patch is well-formed and does not fit this object.
    #[error("{0}")]
    Unprocessable(String),
    /// 500 without a reason: a strategic merge patch that cannot be merged. Kubernetes gives these errors no
    /// class of their own.
    #[error("{0}")]
    Unclassified(String),
}

impl PatchError {
    /// Whether a `test` operation of a JSON patch failed because the value differs.
    #[must_use]
    pub fn is_failed_test(&self) -> bool {
        matches!(self, Self::Unprocessable(text) if text.starts_with("testing value ") && text.ends_with(": test failed"))
    }
}

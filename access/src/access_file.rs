//! Errors of the files that configure access: AuthenticationConfiguration and AuthorizationConfiguration.

/// Versions of both kinds of file.
pub(crate) const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Bytes of the largest file, after its YAML aliases are expanded.
pub(crate) const MAX_BYTES: usize = 3 << 20;

/// Why a text is not a valid configuration of access.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessFileError {
    /// The text is not a document of this type.
    #[error("{0}")]
    Decoding(String),
    /// A field has an invalid value.
    #[error("{field}: {reason}")]
    Invalid {
        /// The path of the field.
        field: String,
        /// Why its value is invalid.
        reason: String,
    },
}

/// What is read of a configuration of access, or the first error in it.
pub(crate) type Result<T> = std::result::Result<T, AccessFileError>;

/// An error about a field.
pub(crate) fn invalid(field: &str, reason: impl Into<String>) -> AccessFileError {
    AccessFileError::Invalid { field: field.to_owned(), reason: reason.into() }
}

/// An error about a field, unless the condition holds.
pub(crate) fn check(holds: bool, field: &str, reason: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(invalid(field, reason())) }
}

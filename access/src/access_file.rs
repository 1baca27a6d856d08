//! How the files that configure access are read, and their errors: AuthenticationConfiguration and
//! AuthorizationConfiguration.

use kstore_api::yaml;
use serde::de::DeserializeOwned;

/// Versions of both kinds of file.
const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];

/// Bytes of the largest file, after its YAML aliases are expanded.
const MAX_BYTES: usize = 3 << 20;

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

/// Decodes a document of this kind in YAML or JSON. The type refuses unknown fields; `type_meta` reads its `apiVersion`
/// and `kind`.
///
/// # Errors
/// The text is no document of this kind, or has a field twice.
pub(crate) fn read<T: DeserializeOwned>(
    text: &[u8],
    kind: &str,
    type_meta: impl Fn(&T) -> (&str, &str),
) -> Result<T> {
    let decoding = AccessFileError::Decoding;
    let yaml::Document { value, repeated } = yaml::parse(text, MAX_BYTES).map_err(decoding)?;
    if let Some(key) = repeated.first() {
        return Err(decoding(format!("strict decoding error: {key}")));
    }
    let file: T = serde_json::from_value(value).map_err(|error| decoding(error.to_string()))?;
    let (version, found) = type_meta(&file);
    if !VERSIONS.contains(&version) || found != kind {
        return Err(decoding(format!("expected {} {kind}, found {version} {found}", VERSIONS[0])));
    }
    Ok(file)
}

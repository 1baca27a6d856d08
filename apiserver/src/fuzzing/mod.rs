//! Fuzz targets of this crate: each takes any bytes and returns, or panics on a defect. The tests of this
//! crate run them over random bytes and the stored corpus. Not an API for users.

#[cfg(test)]
mod tests;

/// A fuzz target: its name and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: [FuzzTarget; 11] = [
    ("abac", kstore_access::authz::fuzzing::abac),
    ("audit_policy", kstore_access::audit::fuzzing::policy),
    ("authentication_config", kstore_access::authn::fuzzing::authentication_config),
    ("authorization_config", kstore_access::authz::fuzzing::authorization_config),
    ("basic_auth", kstore_access::authn::basic_auth::fuzzing::basic_auth),
    ("certificate", kstore_access::authn::fuzzing::certificate),
    ("certificate_request", kstore_pipeline::pipeline::signing::fuzzing::certificate_request),
    ("encryption", kstore_storage::encryption::fuzzing::encryption),
    ("routing", crate::rest::fuzzing::routing),
    ("token", kstore_access::authn::fuzzing::token),
    ("yaml", kstore_registry::decode::fuzzing::yaml),
];

/// Runs a fuzz target.
///
/// # Panics
/// The target found a defect, or there is no such target.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this crate");
    run(bytes);
}

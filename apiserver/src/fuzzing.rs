//! Fuzz targets of this crate: each takes any bytes and returns, or panics on a defect. The tests of this
//! crate run them over random bytes and the stored corpus. Not an API for users.

#[cfg(test)]
mod tests;

/// A fuzz target: its name and its function.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: [FuzzTarget; 4] = [
    ("audit_policy", crate::audit::fuzzing::policy),
    ("encryption", crate::encryption::fuzzing::encryption),
    ("routing", crate::rest::fuzzing::routing),
    ("yaml", crate::decode::fuzzing::yaml),
];

/// Runs a fuzz target.
///
/// # Panics
/// The target found a defect, or there is no such target.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this crate");
    run(bytes);
}

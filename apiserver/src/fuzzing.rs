//! Doors for fuzzers: one function per target, each of which takes any bytes and returns, or panics because it found a defect.
//! The same functions run over random bytes and the kept corpus in this crate's tests. No interface for users.

#[cfg(test)]
mod tests;

/// A target: its name, and what to do with bytes.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets of this crate.
pub const TARGETS: [FuzzTarget; 3] = [
    ("audit_policy", crate::audit::fuzzing::policy),
    ("routing", crate::rest::fuzzing::routing),
    ("yaml", crate::decode::fuzzing::yaml),
];

/// Runs a target.
///
/// # Panics
/// It found a defect, or there is no such target.
pub fn run(target: &str, bytes: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("a target of this crate");
    run(bytes);
}

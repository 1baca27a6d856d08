//! [`skip`]: tests that cannot run on this machine, by name.

use std::io::Write as _;

/// With this variable a test that needs namespaces, networks of pods or Python fails where they are not there.
pub const NEEDS_NAMESPACES: &str = "KSTORE_NEEDS_NAMESPACES";

/// Says on standard error that the current test does not run here, and why. The harness captures what tests print and shows it of failed
/// ones alone; this line is shown.
///
/// # Panics
/// The variable `needs` is set: then what is missing must be there.
pub fn skip(needs: &str, why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(std::env::var_os(needs).is_none(), "{test} cannot run, and {needs} is set: {why}");
    // Nothing may read it.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
}

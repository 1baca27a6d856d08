//! `cargo tree`, for rules about dependencies that manifests alone do not show.

use crate::offence::Offence;
use crate::tree::Tree;
use std::process::{Command, Stdio};

/// Output of `cargo tree` with these arguments: one crate a line, its name first. Cargo downloads crates of the lock
/// file that this machine does not have yet.
pub(crate) fn tree(tree: &Tree, arguments: &[&str]) -> Result<String, Offence> {
    let failed = |reason: String| {
        Offence::new("Cargo.toml", 1, format!("`cargo tree {}` failed: {reason}", arguments.join(" ")))
    };
    // Cargo passes its own path to programs that it runs.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--prefix", "none"])
        .args(arguments)
        .current_dir(&tree.root)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Name of the crate on a line of [`tree`]'s output.
pub(crate) fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

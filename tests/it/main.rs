//! Checks of the source tree.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// The table of crate dependencies.
mod architecture;
/// House rules, checked on the source tree.
mod tidy;

use std::path::{Path, PathBuf};

/// The workspace's root folder.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_owned()
}

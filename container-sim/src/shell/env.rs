//! What one process sees of its container: its variables and folder, and what all processes of the command share.

use super::Environment;
use super::memory::Bounds;
use super::syntax::Dialect;
use super::variables::Variables;
use std::ops::Deref;
use std::sync::Arc;

/// The view of one process. Dereferences to what all share: files, volumes, the disk, memory and work.
#[derive(Clone, Debug)]
pub(super) struct Env {
    pub(super) shared: Arc<Environment>,
    /// The working directory.
    pub(super) workdir: String,
    pub(super) variables: Variables,
    /// The time in seconds since 1970.
    pub(super) now: i64,
    /// Permission bits that new files do not get.
    pub(super) umask: u32,
    /// Rows and columns of the terminal.
    pub(super) terminal: Option<(u16, u16)>,
    pub(super) dialect: Dialect,
}

impl Deref for Env {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.shared
    }
}

impl Env {
    /// The view of the first process.
    pub(super) fn new(shared: &Arc<Environment>) -> Self {
        Self {
            workdir: shared.workdir.clone(),
            variables: Variables::exported_from(&shared.variables),
            now: shared.now,
            umask: 0o022,
            terminal: shared.terminal,
            dialect: Dialect::Ash,
            shared: Arc::clone(shared),
        }
    }

    /// The memory and work of the command.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { allowance: self.memory.clone(), work: self.work.clone() }
    }
}

//! Opening a store: from nothing, or from what the last one left.

use std::sync::Arc;

use kstore_nondet::Nondet;

use crate::core::{Core, Visible};
use crate::driver::Driver;
use crate::engine::memory::MemoryEngine;
use crate::error::OpenError;
use crate::index::Index;
use crate::lease::table::LeaseTable;
use crate::window::Window;
use crate::writer::{Recovered, Writer};
use crate::{Config, Revision};

/// Opens what `config` describes.
pub(crate) fn open(config: Config, nondet: &Nondet) -> Result<Driver, OpenError> {
    let core = Core::new(empty(), Arc::new(MemoryEngine::default()), config.limits);
    let recovered = Recovered { seq: 0, leases: LeaseTable::default() };
    Ok(Driver::in_memory(Writer::new(Arc::new(core), nondet.rng.fork("store"), recovered)))
}

/// The state of a store that never saw a write.
fn empty() -> Visible {
    Visible {
        revision: Revision::FIRST,
        compacted: Revision::NEVER_COMPACTED,
        index: Index::default(),
        window: Window::after(Revision::FIRST),
    }
}

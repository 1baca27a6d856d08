//! Engines of a data directory: the location of their files, and new ones.

use crate::disk::Disk;
use crate::engine::memory::MemoryEngine;
use crate::engine::reader::LoadCallbacks;
use crate::engine::segments::SegmentsEngine;
use crate::engine::sled::SledEngine;
use crate::engine::{Engine, EngineError};
use crate::{EngineKind, Limits};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of the sled database.
pub(super) fn sled_dir(engine: &Path) -> PathBuf {
    engine.join("sled")
}

/// Creates a new engine in a directory without engine files.
pub(super) fn new_engine(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    kind: EngineKind,
) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(match kind {
        EngineKind::Segments => {
            let mut nothing = LoadCallbacks { prepare: |_| Ok(Vec::new()), take: &mut |_, _| () };
            let limits = Limits::default();
            Arc::new(SegmentsEngine::open_reading(disk.clone(), dir, None, &limits, &|_| None, &mut nothing)?)
        }
        EngineKind::Sled => Arc::new(SledEngine::open(&sled_dir(dir), None)?),
        EngineKind::Memory => Arc::new(MemoryEngine::default()),
    })
}

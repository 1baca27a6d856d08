//! A store's directory, seen from outside: which engine, where its files are. Not how a store recovers from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::engine::memory::MemoryEngine;
use crate::engine::segments::SegmentsEngine;
use crate::engine::sled::SledEngine;
use crate::engine::{Engine, EngineError};
use crate::{EngineKind, Limits};

/// As it stands in the manifest.
pub(super) fn engine_name(kind: EngineKind) -> &'static str {
    match kind {
        EngineKind::Segments => "segments",
        EngineKind::Sled => "sled",
        EngineKind::Memory => "memory",
    }
}

/// sled's own directory.
pub(super) fn sled_dir(engine: &Path) -> PathBuf {
    engine.join("sled")
}

/// Opens the state of an engine that `token` names; without one, a new engine.
pub(super) fn open_engine(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    kind: EngineKind,
    token: Option<&[u8]>,
) -> Result<Arc<dyn Engine>, EngineError> {
    Ok(match kind {
        EngineKind::Segments => Arc::new(SegmentsEngine::open(disk.clone(), dir, token, &Limits::default())?),
        EngineKind::Sled => Arc::new(SledEngine::open(&sled_dir(dir), token)?),
        EngineKind::Memory => Arc::new(MemoryEngine::default()),
    })
}

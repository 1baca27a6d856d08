//! Brings requests to the writer: on the caller's thread in memory, through a bounded queue to a thread otherwise.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::Core;
use crate::request::{Answer, Refused, Request};
use crate::writer::Writer;

/// See the module.
pub(crate) struct Driver {
    core: Arc<Core>,
    writer: Mutex<Writer>,
}

impl Driver {
    pub(crate) fn in_memory(writer: Writer) -> Self {
        Self { core: writer.core.clone(), writer: Mutex::new(writer) }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Resolves when the answer may go out. The request is done even if the future is dropped.
    pub(crate) async fn submit(&self, request: Request, _bytes: usize) -> Result<Answer, Refused> {
        self.core.serving().map_err(|_| Refused::Stopped)?;
        let mut writer = self.writer.lock();
        let answer = writer.execute(&request);
        writer.commit_in_memory().map_err(|_| Refused::Stopped)?;
        Ok(answer)
    }

    pub(crate) fn close(&self) {
        self.core.close();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.close();
    }
}

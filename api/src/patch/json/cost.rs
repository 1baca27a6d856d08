//! Cost of a JSON patch: what its operations copy, shift and nest is bounded before it is done.

use crate::patch::PatchError;
use crate::schema::limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_MEASURED_VALUES, MAX_SHIFTED_ELEMENTS};
use serde_json::Value;

/// Cost of the operations applied so far.
#[derive(Default)]
pub(super) struct PatchCost {
    /// Bytes added by copies.
    copied: usize,
    /// List elements shifted by adding or removing an element before them.
    shifted: usize,
    /// Values whose nesting was measured.
    measured: usize,
}

impl PatchCost {
    /// Charges a copy.
    pub(super) fn copy(&mut self, bytes: usize) -> Result<(), PatchError> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > MAX_COPY_BYTES {
            return Err(PatchError::TooLarge(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {MAX_COPY_BYTES}",
                self.copied
            )));
        }
        Ok(())
    }

    /// Charges shifted list elements.
    pub(super) fn shift(&mut self, elements: usize) -> Result<(), PatchError> {
        self.shifted = self.shifted.saturating_add(elements);
        if self.shifted > MAX_SHIFTED_ELEMENTS {
            return Err(PatchError::TooLarge(format!(
                "the operations of the JSON patch move more than {MAX_SHIFTED_ELEMENTS} list elements: replace the list as a whole"
            )));
        }
        Ok(())
    }

    /// Refuses a value that would make the document too deep at `path`, before it is there. Moves could otherwise nest a
    /// document until its drop, clone and comparison, which recurse, overflow the stack.
    pub(super) fn nest(&mut self, path: &str, value: &Value) -> Result<(), PatchError> {
        let above = path.bytes().filter(|byte| *byte == b'/').count();
        if !self.fits(value, MAX_DEPTH.saturating_sub(above)) {
            return Err(PatchError::Unprocessable("exceeded max depth".to_owned()));
        }
        if self.measured > MAX_MEASURED_VALUES {
            return Err(PatchError::TooLarge(format!(
                "the operations of the JSON patch add or move more than {MAX_MEASURED_VALUES} values"
            )));
        }
        Ok(())
    }

    /// Whether a value has at most this many levels. It recurses no deeper than that.
    fn fits(&mut self, value: &Value, levels: usize) -> bool {
        let Some(below) = levels.checked_sub(1) else { return false };
        self.measured = self.measured.saturating_add(1);
        match value {
            Value::Array(items) => items.iter().all(|item| self.fits(item, below)),
            Value::Object(map) => map.values().all(|member| self.fits(member, below)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }
}

//! Which names the definitions of one group get, and the conditions that say so.

use serde_json::Value;

/// The new status of each definition whose status changes, by `metadata.name`. `definitions` are all of one group, as they are after
/// a write or delete; `now` (RFC 3339) is the time of changed conditions. Names that a definition holds stay its own; free names go
/// to the oldest definition that asks. Running it on its own result changes nothing.
#[must_use]
pub fn plan_names(definitions: &[&Value], now: &str) -> Vec<(String, Value)> {
    let _ = (definitions, now);
    todo!()
}

//! Baseline: pods must not mount hostPath volumes.

use super::{Control, Pod, Revision, Violation, plural, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::{list, text};

pub(super) const ID: &str = "hostPathVolumes";
pub(super) const CONTROL: Control =
    Control { id: ID, level: Level::Baseline, revisions: &[Revision::new(0, check)] };

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let bad = list(&pod.spec["volumes"]).iter().filter(|volume| !volume["hostPath"].is_null());
    let bad: Vec<&str> = bad.map(|volume| text(&volume["name"])).collect();
    if bad.is_empty() {
        return None;
    }
    let noun = plural("volume", "volumes", bad.len());
    violation("hostPath volumes", format!("{noun} {}", quoted(bad)))
}

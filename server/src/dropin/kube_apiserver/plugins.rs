//! Admission plugins by the deprecated `--admission-control`, the list of all plugins that run.

use crate::args::{AdmissionConfig, known_plugin};
use crate::dropin::UsageError;
use crate::flags::Parsed;
use kstore_admission::PluginSwitches;

const FLAG: &str = "admission-control";

/// Applies the flag, if it is given. It replaces the effect of the two newer flags.
pub(super) fn apply(flags: &Parsed, config: &mut AdmissionConfig) -> Result<(), UsageError> {
    if !flags.has(FLAG) {
        return Ok(());
    }
    let (mut switches, mut warnings) = (PluginSwitches::default(), Vec::new());
    for name in flags.list(FLAG) {
        switches.enabled.extend(known_plugin(FLAG, &name, &mut warnings)?);
    }
    let others = kstore_admission::plugins().filter(|plugin| !switches.enabled.contains(plugin));
    switches.disabled = others.collect();
    (config.switches, config.warnings) = (switches, warnings);
    Ok(())
}

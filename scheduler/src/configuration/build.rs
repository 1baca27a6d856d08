//! From an item of `profiles` to a [`Profile`] that runs: [`configured`] lets the plugins read their arguments, and
//! [`ConfiguredProfile::start`] merges the plugin sets and makes the line-up.

use super::merge::{EnabledPlugin, MergedPlugins, merge};
use super::settings::{Document, PluginArgs, ProfileDoc};
use super::{API_VERSION, ConfigurationError};
use crate::fields::{Fields, Problems};
use crate::limits::MAX_NODE_SCORE;
use crate::plugin::{ExtensionPoint, PluginId, Row};
use crate::plugins::{LineUp, RegisteredPlugin, Registry};
use crate::profile::Profile;
use std::sync::Arc;

/// A plugin with its arguments, and why it cannot start with them.
struct ConfiguredPlugin {
    id: PluginId,
    plugin: Arc<dyn RegisteredPlugin>,
    faults: Vec<String>,
}

/// A profile whose plugins have read their arguments.
pub(super) struct ConfiguredProfile<'d> {
    profile: &'d ProfileDoc,
    plugins: Vec<ConfiguredPlugin>,
}

/// Lets the plugins of each profile read their arguments.
pub(super) fn configured<'d>(
    document: &'d Document,
    registry: &Registry,
    problems: &mut Problems,
) -> Vec<ConfiguredProfile<'d>> {
    let plugins = |profile: &ProfileDoc, problems: &mut Problems| {
        profile.args.iter().filter_map(|args| plugin(args, registry, problems)).collect()
    };
    document
        .profiles
        .iter()
        .map(|profile| ConfiguredProfile { profile, plugins: plugins(profile, problems) })
        .collect()
}

/// The plugin with these arguments; `None` if there is none.
fn plugin(args: &PluginArgs, registry: &Registry, problems: &mut Problems) -> Option<ConfiguredPlugin> {
    let PluginArgs { name, path, args } = args;
    let Some(id) = registry.id(name) else {
        problems.warnings.push(format!("{path}: no plugin \"{name}\" exists; the arguments have no effect"));
        return None;
    };
    let mut own = Problems::default();
    let mut fields = Fields::of_document(args.clone(), path, &mut own);
    check_kind(name, &mut fields);
    let plugin = registry.get(id).configured(&mut fields);
    let has_arguments = plugin.is_some() || fields.is_empty();
    if has_arguments {
        fields.finish();
    }
    let place = path.trim_end_matches(".args");
    match &own.types[..] {
        [] if own.strict.is_empty() => {}
        [] => {
            let error = format!("strict decoding error: {}", own.strict.join(", "));
            let error = format!("decoding args for plugin {name}: {error}");
            problems.strict.push(format!("decoding .{place}: strict decoding error: {error}"));
        }
        // The text about a wrong kind names the plugin itself.
        [first, ..] if first.starts_with("args for plugin ") => {
            problems.types.push(format!("decoding .{place}: {}", own.types.join(", ")));
        }
        types => {
            let error = types.join(", ");
            problems.types.push(format!("decoding .{place}: decoding args for plugin {name}: {error}"));
        }
    }
    problems.invalid.extend(own.invalid);
    problems.warnings.append(&mut own.warnings);
    if !has_arguments {
        problems.warnings.push(format!("{path}: plugin \"{name}\" has no arguments; they have no effect"));
    }
    Some(ConfiguredPlugin { id, plugin: plugin?, faults: own.start })
}

/// Checks that `kind` and `apiVersion` of a plugin's arguments, where they are given, are those of the plugin.
fn check_kind(name: &str, args: &mut Fields<'_>) {
    const GROUP: &str = "kubescheduler.config.k8s.io";
    let (version, kind) = (args.text("apiVersion"), args.text("kind"));
    if let Some(kind) = kind.filter(|kind| *kind != format!("{name}Args")) {
        let text = format!("args for plugin {name} were not of type {name}Args.{GROUP}, got {kind}.{GROUP}");
        args.undecodable("", &text);
    }
    if let Some(version) = version.filter(|version| version != API_VERSION) {
        let text = format!("no kind \"{name}Args\" is registered for version \"{version}\"");
        args.undecodable("", &text);
    }
}

impl ConfiguredProfile<'_> {
    /// The profile as it runs.
    ///
    /// # Errors
    ///
    /// Its plugins cannot start, or cannot run together.
    pub(super) fn start(
        self,
        document: &Document,
        registry: &Registry,
        warnings: &mut Vec<String>,
    ) -> Result<Profile, ConfigurationError> {
        let name = self.profile.name().to_owned();
        let percentage = self.profile.percentage.or(document.percentage).unwrap_or_default();
        let plugins = self.line_up(registry, warnings).map_err(|why| {
            format!("initializing profiles: creating profile for scheduler name {name}: {why}")
        })?;
        Ok(Profile {
            scheduler_name: name,
            percentage_of_nodes_to_score: usize::try_from(percentage).unwrap_or_default(),
            plugins,
        })
    }

    fn line_up(self, registry: &Registry, warnings: &mut Vec<String>) -> Result<Registry, String> {
        let defaults = registry.rows().take(registry.in_tree_plugins());
        let defaults: Vec<EnabledPlugin> =
            defaults.map(|row| EnabledPlugin { name: row.name.to_owned(), weight: row.weight }).collect();
        let row = |name: &str| registry.id(name).map(|id| registry.row(id));
        let merged = merge(&defaults, &self.profile.plugins, &row)?;
        for ConfiguredPlugin { id, faults, .. } in &self.plugins {
            let name = registry.row(*id).name;
            let text = match &faults[..] {
                [only] => only.clone(),
                many => format!("[{}]", many.join(", ")),
            };
            if !faults.is_empty() && merged.has(name) {
                return Err(format!("initializing plugin \"{name}\": {text}"));
            }
        }
        check(&merged, self.profile.name(), &row)?;
        warnings.extend(alone(&merged, self.profile.name(), &row));
        let id = |name: &String| registry.id(name).expect("merged plugins exist");
        let points = merged.points.each_ref().map(|names| names.iter().map(id).collect());
        let line_up = LineUp::new(points, merged.weights);
        Ok(registry.with_line_up(line_up, self.plugins.into_iter().map(|plugin| (plugin.id, plugin.plugin))))
    }
}

/// Warnings about plugins at one of two points where only both together have an effect: what is reserved is written in PreBind.
fn alone<'r>(merged: &MergedPlugins, profile: &str, row: &dyn Fn(&str) -> Option<&'r Row>) -> Vec<String> {
    use ExtensionPoint::{PreBind, Reserve};
    let mut warnings = Vec::new();
    for (one, other) in [(Reserve, PreBind), (PreBind, Reserve)] {
        let has_both = |name: &&String| row(name).is_some_and(|row| row.extends(other));
        for name in merged.at(one).iter().filter(has_both).filter(|name| !merged.runs(name, other)) {
            let (one, other) = (one.member(), other.member());
            warnings.push(format!(
                "profile \"{profile}\": plugin \"{name}\" at {one} has no effect without {other}"
            ));
        }
    }
    warnings
}

/// Whether the plugins can run together. The rules after the first two are this scheduler's own: kube-scheduler would run the parts of a
/// plugin one without the other, mostly with errors for each pod.
fn check<'r>(
    merged: &MergedPlugins,
    profile: &str,
    row: &dyn Fn(&str) -> Option<&'r Row>,
) -> Result<(), String> {
    use ExtensionPoint::{Bind, Filter, PostFilter, PreEnqueue, PreFilter, QueueSort};
    let sorts = merged.at(QueueSort).len();
    if sorts != 1 {
        return Err(format!(
            "only one queue sort plugin required for profile with scheduler name \"{profile}\", but got {sorts}"
        ));
    }
    if merged.at(Bind).is_empty() {
        return Err(format!(
            "at least one bind plugin is needed for profile with scheduler name \"{profile}\""
        ));
    }
    for (name, point) in
        [("DefaultBinder", Bind), ("SchedulingGates", PreEnqueue), ("PrioritySort", QueueSort)]
    {
        if !merged.runs(name, point) {
            return Err(format!("this scheduler cannot run without plugin \"{name}\" at {}", point.member()));
        }
    }
    // kube-scheduler's sum wraps where one of its weights is negative, and is too large then.
    let sum = merged.weights.iter().try_fold(0_i64, |sum, weight| {
        let more = weight.wrapping_mul(MAX_NODE_SCORE);
        (more <= i64::MAX.wrapping_sub(sum)).then(|| sum.wrapping_add(more))
    });
    if sum.is_none() {
        return Err("score plugins: total score of Score plugins could overflow".to_owned());
    }
    let needs = |name: &&String| row(name).is_some_and(|row| row.extends(PreFilter));
    if let Some(name) = merged.at(Filter).iter().filter(needs).find(|name| !merged.runs(name, PreFilter)) {
        return Err(format!("this scheduler runs plugin \"{name}\" at filter only together with preFilter"));
    }
    let evicts = |name: &str| merged.runs(name, PostFilter) && !merged.runs(name, PreEnqueue);
    if evicts("DefaultPreemption") {
        let name = "DefaultPreemption";
        return Err(format!(
            "this scheduler runs plugin \"{name}\" at postFilter only together with preEnqueue"
        ));
    }
    Ok(())
}

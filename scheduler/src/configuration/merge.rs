//! Merging of a profile's plugin sets with the default ones, as kube-scheduler does it: [`merge`]. Pure functions of names.
//!
//! 1. The default plugins are one list for all points (`multiPoint`). The profile's `multiPoint.disabled` removes some, `*` all.
//! 2. A default plugin that `multiPoint.enabled` names again keeps its place and has the new weight. Others follow in the given order.
//! 3. At a point run first the plugins enabled there that `multiPoint` has too, then the rest of `multiPoint`, then those enabled only
//!    there.
//! 4. `disabled` at a point keeps a plugin of `multiPoint` out of it, `*` all of them.
//! 5. The weight of a score is that at the point Score, or else that of `multiPoint`; none is 1.

use crate::plugin::{ExtensionPoint, Row};
use serde::Serialize;

/// The name that stands for all plugins in a list of disabled ones.
const ALL: &str = "*";

/// The points in the order in which kube-scheduler goes through them.
const ORDER: [ExtensionPoint; ExtensionPoint::ALL.len()] = [
    ExtensionPoint::PreFilter,
    ExtensionPoint::Filter,
    ExtensionPoint::PostFilter,
    ExtensionPoint::Reserve,
    ExtensionPoint::PreScore,
    ExtensionPoint::Score,
    ExtensionPoint::PreBind,
    ExtensionPoint::Bind,
    ExtensionPoint::PostBind,
    ExtensionPoint::Permit,
    ExtensionPoint::PreEnqueue,
    ExtensionPoint::QueueSort,
];

/// The points for placements of groups of pods, at which nothing runs here: the member, Go's name of the plugins, and the names of
/// kube-scheduler's plugins for it.
pub(super) const PLACEMENTS: [(&str, &str, &[&str]); 2] = [
    ("placementGenerate", "PlacementGenerate", &["TopologyPlacementGenerator"]),
    ("placementScore", "PlacementScore", &["NodeResourcesFit", "PodGroupPodsCount"]),
];

/// A plugin of a set, with its weight; zero is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EnabledPlugin {
    pub(super) name: String,
    pub(super) weight: i64,
}

/// The member of `plugins` for one point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PluginSetDoc {
    pub(super) enabled: Vec<EnabledPlugin>,
    pub(super) disabled: Vec<String>,
}

impl PluginSetDoc {
    /// The set as kube-scheduler prints it in an error: with the names of Go's fields, and null for an empty list.
    pub(super) fn as_go(&self) -> impl Serialize {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct GoPlugin {
            name: String,
            weight: i64,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct GoSet {
            enabled: Option<Vec<GoPlugin>>,
            disabled: Option<Vec<GoPlugin>>,
        }
        let list = |items: Vec<GoPlugin>| (!items.is_empty()).then_some(items);
        let enabled = self.enabled.iter().map(|one| GoPlugin { name: one.name.clone(), weight: one.weight });
        let disabled = self.disabled.iter().map(|name| GoPlugin { name: name.clone(), weight: 0 });
        GoSet { enabled: list(enabled.collect()), disabled: list(disabled.collect()) }
    }

    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|disabled| disabled == name)
    }

    fn enables(&self, name: &str) -> bool {
        self.enabled.iter().any(|enabled| enabled.name == name)
    }
}

/// The plugin sets of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PluginsDoc {
    pub(super) multi_point: PluginSetDoc,
    /// By [`ExtensionPoint`].
    pub(super) points: [PluginSetDoc; ExtensionPoint::ALL.len()],
    /// For the points of [`PLACEMENTS`].
    pub(super) placements: Vec<PluginSetDoc>,
}

/// The plugins of a profile, by point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MergedPlugins {
    /// By [`ExtensionPoint`], in the order in which they run.
    pub(super) points: [Vec<String>; ExtensionPoint::ALL.len()],
    /// The weights of the plugins at Score.
    pub(super) weights: Vec<i64>,
}

impl MergedPlugins {
    /// The plugins at a point.
    pub(super) fn at(&self, point: ExtensionPoint) -> &[String] {
        &self.points[point as usize]
    }

    /// Whether the plugin runs at a point.
    pub(super) fn runs(&self, name: &str, point: ExtensionPoint) -> bool {
        self.at(point).iter().any(|other| other == name)
    }

    /// Whether the plugin runs at all.
    pub(super) fn has(&self, name: &str) -> bool {
        ExtensionPoint::ALL.into_iter().any(|point| self.runs(name, point))
    }
}

/// Merges the plugin sets of a profile with the default plugins. `row` has the facts about a plugin that exists.
///
/// # Errors
///
/// A plugin does not exist, is not for the point at which it is enabled, or is enabled twice; in kube-scheduler's words.
pub(super) fn merge<'r>(
    defaults: &[EnabledPlugin],
    custom: &PluginsDoc,
    row: &dyn Fn(&str) -> Option<&'r Row>,
) -> Result<MergedPlugins, String> {
    let multi_point = multi_point(defaults, &custom.multi_point);
    let mut merged = MergedPlugins::default();
    for point in ORDER {
        merged.points[point as usize] = explicit(&custom.points[point as usize], point, row)?;
    }
    for point in ORDER {
        merged.points[point as usize] = expanded(&custom.points[point as usize], &multi_point, point, row)?;
    }
    for ((_, kind, known), set) in PLACEMENTS.iter().zip(&custom.placements) {
        if let Some(EnabledPlugin { name, .. }) = set.enabled.iter().find(|one| !known.contains(&&*one.name))
        {
            return Err(match row(name).is_some() || PLACEMENTS.iter().any(|one| one.2.contains(&&**name)) {
                true => format!("plugin \"{name}\" does not extend {kind}Plugin plugin"),
                false => format!("{kind}Plugin \"{name}\" does not exist"),
            });
        }
    }
    let given = custom.points[ExtensionPoint::Score as usize].enabled.iter().chain(&multi_point);
    let weight = |name: &String| {
        let plugin = given.clone().find(|plugin| plugin.name == *name);
        plugin.map(|plugin| plugin.weight).filter(|weight| *weight != 0).unwrap_or(1)
    };
    merged.weights = merged.at(ExtensionPoint::Score).iter().map(weight).collect();
    Ok(merged)
}

/// Rules 1 and 2.
fn multi_point(defaults: &[EnabledPlugin], custom: &PluginSetDoc) -> Vec<EnabledPlugin> {
    let mut all = Vec::new();
    let mut replaced = Vec::new();
    for default in defaults.iter().filter(|default| !custom.disables(ALL) && !custom.disables(&default.name))
    {
        let again = custom.enabled.iter().rposition(|plugin| plugin.name == default.name);
        all.push(again.map_or(default, |at| &custom.enabled[at]).clone());
        replaced.extend(again);
    }
    let others = custom.enabled.iter().enumerate().filter(|(at, _)| !replaced.contains(at));
    all.extend(others.map(|(_, plugin)| plugin.clone()));
    all
}

/// The plugins that are enabled at a point itself.
fn explicit<'r>(
    set: &PluginSetDoc,
    point: ExtensionPoint,
    row: &dyn Fn(&str) -> Option<&'r Row>,
) -> Result<Vec<String>, String> {
    let kind = point.name();
    let mut names: Vec<String> = Vec::new();
    for EnabledPlugin { name, .. } in &set.enabled {
        let row = row(name).ok_or_else(|| missing(kind, name))?;
        if !row.extends(point) {
            return Err(format!("plugin \"{name}\" does not extend {kind}Plugin plugin"));
        }
        if names.contains(name) {
            return Err(twice(kind, name));
        }
        names.push(name.clone());
    }
    Ok(names)
}

/// Rules 3 and 4.
fn expanded<'r>(
    set: &PluginSetDoc,
    multi_point: &[EnabledPlugin],
    point: ExtensionPoint,
    row: &dyn Fn(&str) -> Option<&'r Row>,
) -> Result<Vec<String>, String> {
    let own = || set.enabled.iter().map(|plugin| &plugin.name);
    if set.disables(ALL) {
        return Ok(own().cloned().collect());
    }
    let (mut overridden, mut general): (Vec<&String>, Vec<&String>) = (Vec::new(), Vec::new());
    for EnabledPlugin { name, .. } in multi_point {
        let row = row(name).ok_or_else(|| missing(point.name(), name))?;
        if !row.extends(point) || set.disables(name) {
            continue;
        }
        match set.enables(name) {
            true => overridden.push(name),
            false if general.contains(&name) => return Err(twice(point.name(), name)),
            false => general.push(name),
        }
    }
    let first = own().filter(|name| overridden.contains(name));
    let last = own().filter(|name| !overridden.contains(name));
    Ok(first.chain(general.iter().copied()).chain(last).cloned().collect())
}

fn missing(kind: &str, name: &str) -> String {
    const OF_KUBE_SCHEDULER: [&str; 3] =
        ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"];
    let ours = if OF_KUBE_SCHEDULER.contains(&name) { ": this scheduler does not have it" } else { "" };
    format!("{kind}Plugin \"{name}\" does not exist{ours}")
}

fn twice(kind: &str, name: &str) -> String {
    format!("plugin \"{name}\" already registered as \"{kind}Plugin\"")
}

//! Tests of the merge rules: a table with kube-scheduler's texts, and random sets against a plain model.

use crate::configuration::merge::{EnabledPlugin, PluginSetDoc, PluginsDoc, merge};
use crate::configuration::tests::parse;
use crate::event::EventSet;
use crate::plugin::{ExtensionPoint, Row};
use proptest::collection::vec;
use proptest::prelude::*;

const POINTS: [ExtensionPoint; 2] = [ExtensionPoint::Filter, ExtensionPoint::Score];

const fn row(name: &'static str, points: &'static [ExtensionPoint]) -> Row {
    Row { name, points, weight: 0, reasons: &[], events: EventSet::NONE }
}

static ROWS: [Row; 5] = [
    row("Both", &POINTS),
    row("Filter", &[ExtensionPoint::Filter]),
    row("Score", &[ExtensionPoint::Score]),
    row("Other", &POINTS),
    row("OutOfTree", &POINTS),
];

fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// A set of distinct plugins; the third number of each says whether it is enabled, disabled, or both.
fn any_set(is_point: Option<ExtensionPoint>) -> impl Strategy<Value = PluginSetDoc> {
    let fits = move |row: &&Row| is_point.is_none_or(|point| row.extends(point));
    let names: Vec<&'static str> = ROWS.iter().filter(fits).map(|row| row.name).collect();
    let count = names.len();
    let order = Just(names).prop_shuffle();
    (order, vec((0u8..4, 0i64..4), count), proptest::bool::weighted(0.2)).prop_map(
        |(names, kinds, disables_all)| {
            let mut set = PluginSetDoc::default();
            for (name, (kind, weight)) in names.into_iter().zip(kinds) {
                if kind & 1 != 0 {
                    set.enabled.push(EnabledPlugin { name: name.to_owned(), weight });
                }
                if kind & 2 != 0 {
                    set.disabled.push(name.to_owned());
                }
            }
            if disables_all {
                set.disabled.push("*".to_owned());
            }
            set
        },
    )
}

fn has(list: &[String], name: &str) -> bool {
    list.iter().any(|other| other == name || other == "*")
}

/// The plugins and weights at a point, computed plugin by plugin: each gets a rank, and the ranks are sorted.
fn model(defaults: &[EnabledPlugin], custom: &PluginsDoc, point: ExtensionPoint) -> Vec<(String, i64)> {
    let (multi, own) = (&custom.multi_point, &custom.points[point as usize]);
    let place = |list: &[EnabledPlugin], name: &str| list.iter().position(|plugin| plugin.name == name);
    let mut ranked = Vec::new();
    for row in ROWS.iter().filter(|row| row.extends(point)) {
        let is_default = place(defaults, row.name).filter(|_| !has(&multi.disabled, row.name));
        let again = place(&multi.enabled, row.name);
        let general = is_default.map(|at| (0, at)).or(again.map(|at| (1, at)));
        let general = general.filter(|_| !has(&own.disabled, row.name));
        let here = place(&own.enabled, row.name);
        let rank = match (here, general) {
            (Some(at), Some(_)) => (0, (0, at)),
            (None, Some(rank)) => (1, rank),
            (Some(at), None) => (2, (0, at)),
            (None, None) => continue,
        };
        let weight_of = |list: &[EnabledPlugin], at: usize| list[at].weight;
        let weight = here
            .map(|at| weight_of(&own.enabled, at))
            .or(again.map(|at| weight_of(&multi.enabled, at)))
            .or(is_default.map(|at| weight_of(defaults, at)));
        ranked.push((rank, row.name.to_owned(), weight.filter(|weight| *weight != 0).unwrap_or(1)));
    }
    ranked.sort();
    ranked.into_iter().map(|(_, name, weight)| (name, weight)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn merged_sets_equal_the_model(
        multi in any_set(None), filter in any_set(Some(ExtensionPoint::Filter)), score in any_set(Some(ExtensionPoint::Score)),
    ) {
        let defaults = ROWS[..4].iter().zip([3, 0, 2, 0]);
        let defaults: Vec<EnabledPlugin> =
            defaults.map(|(row, weight)| EnabledPlugin { name: row.name.to_owned(), weight }).collect();
        let mut custom = PluginsDoc { multi_point: multi, ..PluginsDoc::default() };
        custom.points[ExtensionPoint::Filter as usize] = filter;
        custom.points[ExtensionPoint::Score as usize] = score;
        let merged = merge(&defaults, &custom, &find).unwrap();
        let filters = model(&defaults, &custom, ExtensionPoint::Filter);
        let scores = model(&defaults, &custom, ExtensionPoint::Score);
        prop_assert_eq!(
            merged.at(ExtensionPoint::Filter).to_vec(),
            filters.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
        let merged: Vec<_> =
            merged.at(ExtensionPoint::Score).iter().cloned().zip(merged.weights.iter().copied()).collect();
        prop_assert_eq!(merged, scores);
    }
}

#[test]
fn plugin_sets_that_cannot_be_merged_or_run_are_refused() {
    let cases = [
        (
            "{filter: {enabled: [{name: ImageLocality}]}}",
            "plugin \"ImageLocality\" does not extend FilterPlugin plugin",
        ),
        (
            "{filter: {enabled: [{name: NodeName}, {name: NodeName}]}}",
            "plugin \"NodeName\" already registered as \"FilterPlugin\"",
        ),
        ("{filter: {enabled: [{name: Mine}]}}", "FilterPlugin \"Mine\" does not exist"),
        ("{multiPoint: {enabled: [{name: Mine}]}}", "PreFilterPlugin \"Mine\" does not exist"),
        (
            "{multiPoint: {enabled: [{name: PodGroupPodsCount}]}}",
            "PreFilterPlugin \"PodGroupPodsCount\" does not exist: this scheduler does not have it",
        ),
        (
            "{queueSort: {disabled: [{name: '*'}]}}",
            "only one queue sort plugin required for profile with scheduler name \"p\", but got 0",
        ),
        (
            "{bind: {disabled: [{name: '*'}]}}",
            "at least one bind plugin is needed for profile with scheduler name \"p\"",
        ),
        (
            "{preEnqueue: {disabled: [{name: SchedulingGates}]}}",
            "this scheduler cannot run without plugin \"SchedulingGates\" at preEnqueue",
        ),
        (
            "{preFilter: {disabled: [{name: '*'}]}}",
            "this scheduler runs plugin \"NodeAffinity\" at filter only together with preFilter",
        ),
        (
            "{preEnqueue: {disabled: [{name: DefaultPreemption}]}}",
            "this scheduler runs plugin \"DefaultPreemption\" at postFilter only together with preEnqueue",
        ),
    ];
    for (plugins, expected) in cases {
        let errors = parse(&format!("profiles: [{{schedulerName: p, plugins: {plugins}}}]")).unwrap_err();
        let start = "initializing profiles: creating profile for scheduler name p: ";
        assert_eq!(errors, [format!("{start}{expected}")], "{plugins}");
    }
    let sorts = "queueSort: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}";
    let two = format!("profiles: [{{schedulerName: a}}, {{schedulerName: b, plugins: {{{sorts}}}}}]");
    let set = r#"{"Enabled":[{"Name":"PrioritySort","Weight":0}],"Disabled":[{"Name":"*","Weight":0}]}"#;
    let expected =
        format!("profiles[1].plugins.queueSort: Invalid value: {set}: must be the same for all profiles");
    assert_eq!(parse(&two).unwrap_err(), [expected]);
    for accepted in [
        "{multiPoint: {disabled: [{name: NodeDeclaredFeatures}]}}",
        "{score: {disabled: [{name: '*'}]}}",
        "{postFilter: {disabled: [{name: '*'}]}}",
        "{multiPoint: {disabled: [{name: VolumeBinding}, {name: DynamicResources}]}}",
        "{filter: {disabled: [{name: NodeResourcesFit}, {name: TaintToleration}]}}",
    ] {
        assert!(parse(&format!("profiles: [{{plugins: {accepted}}}]")).is_ok(), "{accepted}");
    }
}

#[test]
fn plugins_that_have_no_effect_where_they_are_enabled_are_accepted_with_a_warning() {
    for (alone, warning) in [
        (
            "{reserve: {disabled: [{name: VolumeBinding}]}}",
            "plugin \"VolumeBinding\" at preBind has no effect without reserve",
        ),
        (
            "{preBind: {disabled: [{name: VolumeBinding}]}}",
            "plugin \"VolumeBinding\" at reserve has no effect without preBind",
        ),
        (
            "{placementScore: {enabled: [{name: NodeResourcesFit}]}}",
            "chooses no placements of groups of pods; it has no effect",
        ),
    ] {
        let read = parse(&format!("profiles: [{{plugins: {alone}}}]")).unwrap();
        assert!(
            read.warnings.len() == 1 && read.warnings[0].ends_with(warning),
            "{alone}: {:?}",
            read.warnings
        );
    }
}

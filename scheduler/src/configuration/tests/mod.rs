//! Tests of reading, merging and printing of configurations, and of decisions by random profiles.

mod merging;
mod profiles;
mod recorded;

use super::*;
use crate::plugin::ExtensionPoint;
use crate::profile::Profile;
use proptest::prelude::{ProptestConfig, prop_assert, proptest};
use std::time::Duration;

fn parse(rest: &str) -> Result<Configuration, Vec<String>> {
    let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{rest}");
    Configuration::parse(&text, &Registry::in_tree()).map_err(|error| error.reasons)
}

fn names(profile: &Profile, point: ExtensionPoint) -> Vec<&'static str> {
    profile.plugins.line_up().at(point).iter().map(|id| profile.plugins.row(*id).name).collect()
}

/// The profiles of a cluster that packs the pods of one scheduler name.
const PACKED: &str = "
profiles:
- schedulerName: default-scheduler
- schedulerName: packed
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}]
      enabled: [{name: NodeResourcesFit, weight: 5}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}, {name: nvidia.com/gpu, weight: 10}]}
";

/// A file with most members.
const MANY: &str = "
percentageOfNodesToScore: 30
podMaxBackoffSeconds: 60
clientConnection: {kubeconfig: /k, qps: 5000, burst: 5000}
leaderElection: {leaderElect: true, leaseDuration: 1m, resourceName: mine}
profiles:
- percentageOfNodesToScore: 50
  plugins:
    multiPoint: {disabled: [{name: ImageLocality}], enabled: [{name: TaintToleration, weight: 7}]}
    filter: {enabled: [{name: NodePorts}]}
    postFilter: {disabled: [{name: DefaultPreemption}]}
  pluginConfig:
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}}
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 20}}
  - {name: VolumeBinding, args: {bindTimeoutSeconds: 5}}
  - {name: DynamicResources, args: {filterTimeout: 2s}}
  - {name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu}, {name: x.io/gpu}]}}
  - name: PodTopologySpread
    args:
      kind: PodTopologySpreadArgs
      apiVersion: kubescheduler.config.k8s.io/v1
      defaultingType: List
      defaultConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]
  - name: NodeResourcesFit
    args:
      ignoredResources: [x.io/gpu]
      scoringStrategy:
        type: RequestedToCapacityRatio
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 80, score: 10}]}
";

#[test]
fn a_file_without_members_is_the_default_scheduler() {
    let read = parse("").unwrap();
    let profiles: Vec<&Profile> = read.profiles.iter().collect();
    assert_eq!(profiles.len(), 1);
    assert_eq!(
        (&*profiles[0].scheduler_name, profiles[0].percentage_of_nodes_to_score),
        ("default-scheduler", 0)
    );
    assert_eq!(profiles[0].plugins.line_up(), Registry::in_tree().line_up());
    assert_eq!((read.backoff, read.warnings.len()), (PodBackoff::default(), 0));
}

#[test]
fn two_profiles_differ_in_scores_and_their_weights() {
    let read = parse(PACKED).unwrap();
    let profiles: Vec<&Profile> = read.profiles.iter().collect();
    assert_eq!(profiles[0].plugins.line_up(), Registry::in_tree().line_up());
    let packed = &profiles[1].plugins;
    assert_eq!(names(profiles[1], ExtensionPoint::Filter), names(profiles[0], ExtensionPoint::Filter));
    let scores: Vec<(&str, i64)> =
        packed.line_up().scorers().map(|(id, weight)| (packed.row(id).name, weight)).collect();
    let expected = [
        ("NodeResourcesFit", 5),
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("VolumeBinding", 1),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("DynamicResources", 2),
        ("ImageLocality", 1),
    ];
    assert_eq!(scores, expected);
}

/// An extender with every member, and one with few.
const EXTENDED: &str = "
profiles:
- {schedulerName: a}
- schedulerName: b
  pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [example.com/b]}}]
extenders:
- urlPrefix: https://x/y
  filterVerb: f
  prioritizeVerb: p
  preemptVerb: e
  bindVerb: b
  weight: 3
  enableHTTPS: true
  httpTimeout: 90s
  nodeCacheCapable: true
  ignorable: true
  managedResources: [{name: example.com/a, ignoredByScheduler: true}, {name: example.com/c}]
  tlsConfig: {insecure: true, serverName: s, certFile: c, keyFile: k, caFile: a, certData: eA==, keyData: eA==, caData: eA==}
- {urlPrefix: 'http://z'}
";

#[test]
fn extenders_have_their_members_and_the_scheduler_ignores_what_they_manage_alone() {
    let read = parse(EXTENDED).unwrap();
    let [plain, full] = &read.extenders.iter().collect::<Vec<_>>()[..] else {
        panic!("{:?}", read.extenders)
    };
    assert_eq!((plain.name(), full.name()), ("http://z", "https://x/y"), "ignorable ones are asked last");
    assert_eq!((plain.timeout, full.timeout), (Duration::from_secs(5), Duration::from_secs(90)));
    for profile in read.profiles.iter() {
        let fit = profile.plugins.get(profile.plugins.id("NodeResourcesFit").unwrap());
        assert_eq!(fit.arguments().unwrap()["ignoredResources"], serde_json::json!(["example.com/a"]));
    }
}

#[test]
fn a_printed_configuration_reads_as_the_same_one() {
    for text in ["", PACKED, MANY, EXTENDED] {
        let read = parse(text).unwrap();
        let printed = read.print();
        let again = Configuration::parse(&printed, &Registry::in_tree()).unwrap();
        assert_eq!(again.print(), printed);
        for (one, other) in read.profiles.iter().zip(again.profiles.iter()) {
            assert_eq!(one.plugins.line_up(), other.plugins.line_up());
            let args = |profile: &Profile| {
                let ids = profile.plugins.rows().filter_map(|row| profile.plugins.id(row.name));
                ids.map(|id| profile.plugins.get(id).arguments()).collect::<Vec<_>>()
            };
            assert_eq!(args(one), args(other));
        }
        assert_eq!(again.backoff, read.backoff);
        assert_eq!(again.leader_election, read.leader_election);
        assert_eq!(again.client_connection, read.client_connection);
    }
    let profile = parse(MANY).unwrap().profiles.iter().next().unwrap().clone();
    assert_eq!(profile.plugins.preemption(), None);
    assert_eq!(names(&profile, ExtensionPoint::Filter)[0], "NodePorts");
    assert_eq!(profile.percentage_of_nodes_to_score, 50);
}

/// A file, and the errors that it has, in order.
const REFUSED: &[(&str, &[&str])] = &[
    ("parallelism: 0", &["parallelism: Invalid value: 0: should be an integer value greater than zero"]),
    ("parallelism: many", &["parallelism: expected an integer of 32 bits, found \"many\""]),
    ("a: 1\na: 2", &["strict decoding error: line 4: key \"a\" already set in map, unknown field \"a\""]),
    ("profiles: [{plugin: {}}]", &["strict decoding error: unknown field \"profiles[0].plugin\""]),
    (
        "percentageOfNodesToScore: 101\npodInitialBackoffSeconds: 20\nprofiles: [{percentageOfNodesToScore: -1}]",
        &[
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ],
    ),
    (
        "leaderElection: {leaderElect: true, resourceLock: endpoints, leaseDuration: -1s}",
        &[
            "leaderElection.leaseDuration: Invalid value: \"-1s\": must be greater than zero",
            "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
            "leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\"",
        ],
    ),
    (
        "profiles: [{schedulerName: a}, {}, {schedulerName: a}]",
        &["profiles[1].schedulerName: Required value", "profiles[2].schedulerName: Duplicate value: {}"],
    ),
    (
        "extenders: [{urlPrefix: 'http://a', prioritizeVerb: p, bindVerb: b}, {bindVerb: b, \
         managedResources: [{name: example.com/a}, {name: cpu}, {name: example.com/a}]}]",
        &[
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
            "extenders[1].managedResources[1].name: Invalid value: \"cpu\": is an invalid extended resource name",
            "extenders[1].managedResources[2].name: Invalid value: \"example.com/a\": duplicate extender managed resource name",
            "extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can implement bind",
        ],
    ),
    ("extenders: [{urlPrefix: x, url: y}]", &["strict decoding error: unknown field \"extenders[0].url\""]),
    (
        "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
        &["profiles[0].plugins.filter.enabled[0]: Invalid value: \"EBSLimits\": was invalid in version \
             \"v1\" (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")"],
    ),
    (
        "profiles: [{plugins: {placementScore: {enabled: [{name: A}]}}}]",
        &[
            "initializing profiles: creating profile for scheduler name default-scheduler: PlacementScorePlugin \"A\" does not exist",
        ],
    ),
];

/// Arguments of a plugin, and their errors.
const REFUSED_ARGS: &[(&str, &str, &str)] = &[
    (
        "InterPodAffinity",
        "{hardPodAffinityWeight: 101}",
        ".hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
    ),
    (
        "DefaultPreemption",
        "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
        ".minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
    ),
    (
        "DefaultPreemption",
        "{minCandidateNodesAbsolute: -1}",
        ".minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
    ),
    (
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu, weight: 2}]}",
        ".resources[0].weight: Invalid value: 2: must be 1",
    ),
    (
        "NodeResourcesBalancedAllocation",
        "{resources: [{name: cpu}, {name: cpu}]}",
        ".resources[1].name: Duplicate value: \"cpu\"",
    ),
    (
        "PodTopologySpread",
        "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}",
        ".defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
    ),
    (
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}",
        ".defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
    ),
    (
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}]}",
        ".defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
    ),
    (
        "VolumeBinding",
        "{bindTimeoutSeconds: -1}",
        ".bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
    ),
    (
        "VolumeBinding",
        "{shape: []}",
        ".shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
    ),
    (
        "DynamicResources",
        "{filterTimeout: -1s}",
        ".filterTimeout: Invalid value: \"-1s\": must be zero or positive",
    ),
    (
        "DynamicResources",
        "{bindingTimeout: 1ms}",
        ".bindingTimeout: Invalid value: \"1ms\": must be at least 1 second",
    ),
    (
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}]}]}}}",
        ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: \
         Unsupported value: \"Is\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\"",
    ),
];

/// Arguments of NodeResourcesFit that kube-scheduler refuses only while it starts the plugin.
const REFUSED_FIT: &[(&str, &str)] = &[
    (
        "{ignoredResourceGroups: [a/b]}",
        "ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
    ),
    (
        "{scoringStrategy: {type: Least}}",
        "scoringStrategy.type: Unsupported value: \"Least\": supported values: \"LeastAllocated\", \"MostAllocated\", \
         \"RequestedToCapacityRatio\"",
    ),
    (
        "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}",
        "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
    ),
    (
        "{scoringStrategy: {type: RequestedToCapacityRatio}}",
        "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
    ),
    (
        "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
        "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    (
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}",
        "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified",
    ),
    (
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 9, score: 1}, {utilization: 9, score: 11}]}}}",
        "[scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 9: values must be sorted in increasing order, \
         scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: not in valid range [0, 10]]",
    ),
];

#[test]
fn refused_files_have_every_error_in_kube_schedulers_words() {
    for (text, expected) in REFUSED {
        assert_eq!(parse(text).unwrap_err(), *expected, "{text}");
    }
    for (name, args, expected) in REFUSED_ARGS {
        let errors =
            parse(&format!("profiles: [{{pluginConfig: [{{name: {name}, args: {args}}}]}}]")).unwrap_err();
        let place = match expected.starts_with(['.', ':']) {
            true => "profiles[0].pluginConfig[0].args".to_owned(),
            false => format!("decoding .profiles[0].pluginConfig[0]: decoding args for plugin {name}: "),
        };
        assert_eq!(errors[0], format!("{place}{expected}"), "{name} {args}");
    }
    let start = "initializing profiles: creating profile for scheduler name p: initializing plugin \"NodeResourcesFit\": ";
    for (args, expected) in REFUSED_FIT {
        let config = format!("pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]");
        let errors = parse(&format!("profiles: [{{schedulerName: p, {config}}}]"));
        assert_eq!(errors.unwrap_err(), [format!("{start}{expected}")], "{args}");
        let off = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}";
        assert!(
            parse(&format!("profiles: [{{schedulerName: p, {config}, {off}}}]")).is_ok(),
            "{args}: it does not start"
        );
    }
}

#[test]
fn other_versions_and_kinds_are_refused() {
    let refused = |text: &str| Configuration::parse(text, &Registry::in_tree()).unwrap_err().to_string();
    let version = "no kind \"KubeSchedulerConfiguration\" is registered for version \"kubescheduler.config.k8s.io/v1beta3\"";
    assert!(
        refused(&format!("apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: {KIND}"))
            .starts_with(version)
    );
    assert!(refused(&format!("apiVersion: {API_VERSION}\nkind: Config")).starts_with("no kind \"Config\""));
    assert!(refused("").contains("'Kind' is missing"));
    assert!(refused("[").starts_with("yaml: "), "{}", refused("["));
    assert!(refused("kind: 1\n").contains("'Kind' is missing"));
}

#[test]
fn what_has_no_effect_is_a_warning() {
    let warnings = |rest: &str| parse(rest).unwrap().warnings;
    let out_of_tree =
        "profiles: [{pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}]}]";
    assert_eq!(
        warnings(out_of_tree),
        ["profiles[0].pluginConfig[0].args: no plugin \"Coscheduling\" exists; the arguments have no effect"]
    );
    let binding = "profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 20s}}]}]";
    assert!(warnings(binding).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_mutilated_file_is_read_or_refused(from in 0usize..2000, length in 0usize..40, into in "[-a-zA-Z0-9:{}\\[\\], \n]{0,8}") {
        let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{MANY}");
        let from = from % text.len();
        let mutilated = format!("{}{into}{}", &text[..from], &text[(from + length).min(text.len())..]);
        match Configuration::parse(&mutilated, &Registry::in_tree()) {
            Ok(read) => prop_assert!(Configuration::parse(&read.print(), &Registry::in_tree()).is_ok()),
            Err(error) => prop_assert!(error.reasons.iter().all(|reason| !reason.is_empty())),
        }
    }
}

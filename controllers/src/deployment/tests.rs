//! Tests of the Deployment plan, with tables and a simulated cluster whose pods become ready at random.

use super::arith::{ActiveReplicaSet, Bounds, OldReplicaSet, new_size, old_sizes, proportional_sizes};
use super::plan::{Collision, Observed, collision, plan};
use super::revision::{DESIRED_REPLICAS, HASH_LABEL, REVISION, REVISION_HISTORY, revision_of, same_template};
use crate::action::{Action, Plan};
use crate::view::{Phase, Pod};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, ReplicaSet, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::{from_value, json};
use std::sync::Arc;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn deployment(replicas: i32, strategy: serde_json::Value) -> Deployment {
    from_value(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "d", "generation": 1, "resourceVersion": "1",
                     "annotations": {"team": "blue"}},
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}}, "strategy": strategy,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "v0"}]}},
        },
    }))
    .unwrap()
}

fn rolling(surge: &str, unavailable: &str) -> serde_json::Value {
    let value = |text: &str| text.parse::<i32>().map_or_else(|_| json!(text), |n| json!(n));
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": value(surge), "maxUnavailable": value(unavailable)}})
}

/// Simulated API server, ReplicaSet controller and pods.
struct SimulatedCluster {
    d: Deployment,
    sets: Vec<ReplicaSet>,
    now: Timestamp,
    made: usize,
    events: Vec<String>,
}

impl SimulatedCluster {
    fn new(d: Deployment) -> Self {
        Self { d, sets: vec![], now: START, made: 0, events: vec![] }
    }

    fn plan(&self) -> Plan {
        let sets: Vec<&ReplicaSet> = self.sets.iter().collect();
        plan(Observed { deployment: &self.d, sets: &sets, pods: &[] }, self.now)
    }

    /// Runs the controller once. Returns whether it wrote.
    fn run(&mut self) -> bool {
        let plan = self.plan();
        for action in &plan.actions {
            self.take(action);
        }
        !plan.actions.is_empty()
    }

    fn take(&mut self, action: &Action) {
        match action {
            Action::Create(set) => {
                let mut set: ReplicaSet = set.typed().unwrap();
                self.made += 1;
                let at = self.now.checked_add(SignedDuration::from_secs(self.made as i64)).unwrap();
                set.metadata.uid = Some(format!("rs-{}", self.made));
                set.metadata.creation_timestamp = Some(Time(at));
                set.metadata.generation = Some(1);
                assert!(
                    self.sets.iter().all(|s| s.metadata.name != set.metadata.name),
                    "names are taken once"
                );
                self.sets.push(set);
            }
            Action::Update(set) => {
                let mut set: ReplicaSet = set.typed().unwrap();
                let old = self.sets.iter_mut().find(|s| s.metadata.uid == set.metadata.uid).unwrap();
                if set.spec != old.spec {
                    set.metadata.generation = old.metadata.generation.map(|g| g + 1);
                }
                *old = set;
            }
            // A Deployment's `/status` also writes annotations; any other path would change its generation.
            Action::UpdateStatus(d) => {
                let d: Deployment = d.typed().unwrap();
                self.d.status.clone_from(&d.status);
                self.d.metadata.annotations.clone_from(&d.metadata.annotations);
            }
            Action::Delete { target, .. } => {
                self.sets.retain(|s| s.metadata.uid.as_ref() != Some(&target.uid));
            }
            Action::Event(notice) => self.events.push(notice.message.clone()),
            other => panic!("a Deployment does not do {other:?}"),
        }
    }

    fn settle(&mut self) {
        for _ in 0..10 {
            if !self.run() {
                return;
            }
        }
        panic!("the controller goes on writing although nothing changes: {:?}", self.plan());
    }

    /// Runs the ReplicaSet controller; `ready` of the unready pods become ready.
    fn pods(&mut self, mut ready: i32) {
        for set in &mut self.sets {
            let spec = set.spec.as_ref().unwrap().replicas.unwrap();
            let before = set.status.clone().unwrap_or_default();
            let mut available = before.available_replicas.unwrap_or(0).min(spec);
            let step = ready.min(spec - available);
            available += step;
            ready -= step;
            set.status = Some(ReplicaSetStatus {
                replicas: spec,
                ready_replicas: Some(available),
                available_replicas: Some(available),
                observed_generation: set.metadata.generation,
                ..ReplicaSetStatus::default()
            });
        }
    }

    fn finish(&mut self) {
        for _ in 0..200 {
            self.settle();
            self.pods(i32::MAX);
            if !self.run() {
                return;
            }
        }
        panic!("no end in sight");
    }

    fn edit(&mut self, change: impl FnOnce(&mut k8s_openapi::api::apps::v1::DeploymentSpec)) {
        let before = self.d.spec.clone();
        change(self.d.spec.as_mut().unwrap());
        if self.d.spec != before {
            self.d.metadata.generation = self.d.metadata.generation.map(|g| g + 1);
        }
    }

    fn image(&mut self, image: &str) {
        self.edit(|spec| spec.template.spec.as_mut().unwrap().containers[0].image = Some(image.into()));
    }

    fn wait(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    fn new_set(&self) -> Option<&ReplicaSet> {
        let want = &self.d.spec.as_ref().unwrap().template;
        self.sets.iter().find(|s| same_template(s.spec.as_ref().unwrap().template.as_ref().unwrap(), want))
    }

    fn total(&self) -> i32 {
        self.sets.iter().map(super::status::size).sum()
    }

    /// Pods that are available and stay so at the current sizes.
    fn available(&self) -> i32 {
        let of = |s: &ReplicaSet| s.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0);
        self.sets.iter().map(|s| of(s).min(super::status::size(s))).sum()
    }

    fn sizes(&self) -> Vec<i32> {
        self.sets.iter().map(super::status::size).collect()
    }

    fn condition(&self, type_: &str) -> Option<&DeploymentCondition> {
        self.d.status.as_ref()?.conditions.iter().flatten().find(|c| c.type_ == type_)
    }

    fn reason(&self, type_: &str) -> &str {
        self.condition(type_).and_then(|c| c.reason.as_deref()).unwrap_or_default()
    }

    fn is_complete(&self) -> bool {
        super::status::complete(&self.d, self.d.status.as_ref().unwrap())
    }
}

#[test]
fn surge_rounds_up_and_unavailability_down() {
    let table = [
        (10, "25%", "25%", 3, 2),
        (1, "25%", "25%", 1, 0),
        (4, "0", "0", 0, 1),
        (4, "0%", "0%", 0, 1),
        (3, "100%", "0", 3, 0),
        (5, "1", "9", 1, 5),
        (0, "25%", "25%", 0, 0),
    ];
    for (wanted, s, u, surge, unavailable) in table {
        let bounds = Bounds::of(&deployment(wanted, rolling(s, u)));
        assert_eq!(bounds, Bounds { wanted, surge, unavailable }, "{wanted} {s} {u}");
    }
    let recreate = Bounds::of(&deployment(3, json!({"type": "Recreate"})));
    assert_eq!(recreate, Bounds { wanted: 3, surge: 0, unavailable: 0 });
}

#[test]
fn old_replica_sets_lose_unavailable_pods_first() {
    let bounds = Bounds { wanted: 10, surge: 3, unavailable: 2 };
    let table: [(&[OldReplicaSet], OldReplicaSet, &[i32]); 4] = [
        (&[OldReplicaSet { spec: 10, available: 10 }], OldReplicaSet { spec: 3, available: 0 }, &[8]),
        (&[OldReplicaSet { spec: 8, available: 8 }], OldReplicaSet { spec: 5, available: 0 }, &[8]),
        (&[OldReplicaSet { spec: 8, available: 8 }], OldReplicaSet { spec: 5, available: 3 }, &[5]),
        (
            &[OldReplicaSet { spec: 4, available: 0 }, OldReplicaSet { spec: 6, available: 6 }],
            OldReplicaSet { spec: 3, available: 3 },
            &[0, 5],
        ),
    ];
    for (old, new, sizes) in table {
        assert_eq!(old_sizes(bounds, old, new), sizes, "{old:?} {new:?}");
    }
}

#[test]
fn a_resize_during_a_rollout_keeps_the_proportions() {
    let bounds = Bounds { wanted: 15, surge: 3, unavailable: 2 };
    let sets = [ActiveReplicaSet { size: 8, most_before: 13 }, ActiveReplicaSet { size: 5, most_before: 13 }];
    assert_eq!(proportional_sizes(bounds, &sets), [11, 7]);
    let gone = Bounds { wanted: 0, surge: 0, unavailable: 0 };
    assert_eq!(proportional_sizes(gone, &sets), [0, 0]);
}

#[test]
fn a_new_deployment_creates_its_replica_set_at_full_size() {
    let mut world = SimulatedCluster::new(deployment(3, rolling("25%", "25%")));
    world.settle();
    let set = world.new_set().unwrap();
    assert_eq!((world.sizes(), revision_of(set.metadata.annotations.as_ref())), (vec![3], 1));
    let name = set.metadata.name.clone().unwrap();
    let hash = set.metadata.labels.as_ref().unwrap()[HASH_LABEL].clone();
    assert_eq!(name, format!("web-{hash}"));
    let spec = set.spec.as_ref().unwrap();
    assert_eq!(spec.selector.match_labels.as_ref().unwrap()[HASH_LABEL], hash);
    assert_eq!(
        spec.template.as_ref().unwrap().metadata.as_ref().unwrap().labels.as_ref().unwrap()[HASH_LABEL],
        hash
    );
    assert_eq!(set.metadata.annotations.as_ref().unwrap()["team"], "blue");
    assert_eq!(world.events, [format!("Scaled up replica set {name} from 0 to 3")]);
    assert_eq!(world.reason("Progressing"), "NewReplicaSetCreated");
    assert_eq!(world.reason("Available"), "MinimumReplicasUnavailable");
    assert_eq!(world.d.metadata.annotations.as_ref().unwrap()[REVISION], "1");
    world.finish();
    assert!(world.is_complete());
    assert_eq!(
        (world.reason("Progressing"), world.reason("Available")),
        ("NewReplicaSetAvailable", "MinimumReplicasAvailable")
    );
}

#[test]
fn a_rolling_update_respects_its_bounds() {
    let mut world = SimulatedCluster::new(deployment(10, rolling("25%", "25%")));
    world.finish();
    world.image("v1");
    let mut steps = vec![];
    for _ in 0..40 {
        while world.run() {
            if steps.last() != Some(&world.sizes()) {
                steps.push(world.sizes());
            }
        }
        world.pods(2);
    }
    assert_eq!(steps[..3], [vec![10, 3], vec![8, 3], vec![8, 5]]);
    assert_eq!(steps.last(), Some(&vec![0, 10]));
    world.finish();
    assert!(world.is_complete());
    assert_eq!(revision_of(world.new_set().unwrap().metadata.annotations.as_ref()), 2);
}

#[test]
fn undo_renumbers_the_old_replica_set_and_history_is_bounded() {
    let mut world = SimulatedCluster::new(deployment(2, rolling("25%", "25%")));
    world.finish();
    for image in ["v1", "v2", "v0"] {
        world.image(image);
        world.finish();
    }
    assert_eq!(world.sets.len(), 3, "the set of v0 is used again");
    let set = world.new_set().unwrap();
    let annotations = set.metadata.annotations.as_ref().unwrap();
    assert_eq!((annotations[REVISION].as_str(), annotations[REVISION_HISTORY].as_str()), ("4", "1"));
    assert_eq!(world.d.metadata.annotations.as_ref().unwrap()[REVISION], "4");
    for image in ["v3", "v4", "v5"] {
        world.image(image);
        world.finish();
    }
    let mut revisions: Vec<i64> =
        world.sets.iter().map(|s| revision_of(s.metadata.annotations.as_ref())).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [5, 6, 7], "two old revisions are kept, the newest");
}

#[test]
fn recreate_waits_until_no_old_pod_does_work() {
    let mut world = SimulatedCluster::new(deployment(3, json!({"type": "Recreate"})));
    world.finish();
    world.image("v1");
    world.run();
    assert_eq!(world.sizes(), [0], "first everything old goes");
    world.pods(0);
    let mut pod = Pod::default();
    pod.metadata.owner_references =
        vec![crate::claim::controller_ref("apps/v1", "ReplicaSet", &world.sets[0].metadata)];
    pod.status.phase = Phase::Running;
    let sets: Vec<&ReplicaSet> = world.sets.iter().collect();
    let creates = |pods: &[Arc<Pod>]| {
        let plan = plan(Observed { deployment: &world.d, sets: &sets, pods }, world.now);
        plan.actions.iter().any(|a| matches!(a, Action::Create(_)))
    };
    assert!(!creates(&[Arc::new(pod.clone())]), "a terminating pod still counts");
    pod.status.phase = Phase::Failed;
    assert!(creates(&[Arc::new(pod)]));
    world.finish();
    assert_eq!(world.sizes(), [0, 3]);
}

#[test]
fn a_paused_deployment_resizes_but_does_not_roll() {
    let mut world = SimulatedCluster::new(deployment(4, rolling("1", "0")));
    world.finish();
    world.edit(|spec| spec.paused = Some(true));
    world.image("v1");
    world.finish();
    assert_eq!((world.sizes(), world.reason("Progressing")), (vec![4], "DeploymentPaused"));
    world.edit(|spec| spec.replicas = Some(6));
    world.finish();
    assert_eq!(world.sizes(), [6]);
    world.edit(|spec| spec.paused = Some(false));
    world.run();
    assert_eq!(world.sizes(), [6, 1]);
    world.finish();
    assert_eq!(world.sizes(), [0, 6]);
    assert!(world.is_complete());
}

#[test]
fn a_stalled_rollout_exceeds_its_deadline_once() {
    let mut world = SimulatedCluster::new(deployment(2, rolling("1", "0")));
    world.settle();
    let wake = world.plan().wake.unwrap();
    assert_eq!(wake.as_secs(), 601);
    world.wait(600);
    assert!(!world.run(), "the deadline itself is still in time");
    world.wait(1);
    world.settle();
    assert_eq!(world.reason("Progressing"), "ProgressDeadlineExceeded");
    assert_eq!(world.condition("Progressing").unwrap().status, "False");
    assert_eq!(world.plan(), Plan::nothing());
    world.finish();
    assert_eq!(world.reason("Progressing"), "NewReplicaSetAvailable", "late is better than never");
}

#[test]
fn scaling_alone_creates_no_revision() {
    let mut world = SimulatedCluster::new(deployment(2, rolling("25%", "25%")));
    world.finish();
    world.edit(|spec| spec.replicas = Some(5));
    world.finish();
    let set = world.new_set().unwrap();
    assert_eq!((world.sizes(), revision_of(set.metadata.annotations.as_ref())), (vec![5], 1));
    assert_eq!(set.metadata.annotations.as_ref().unwrap()[DESIRED_REPLICAS], "5");
    world.edit(|spec| spec.replicas = Some(0));
    world.finish();
    assert!(world.is_complete());
}

#[test]
fn a_deleted_new_replica_set_is_recreated_unless_the_deployment_is_deleted() {
    let mut world = SimulatedCluster::new(deployment(2, rolling("25%", "25%")));
    world.finish();
    world.sets.clear();
    world.finish();
    assert_eq!(world.sizes(), [2]);
    world.sets.clear();
    world.d.metadata.deletion_timestamp = Some(Time(START));
    world.settle();
    assert!(world.sets.is_empty());
}

#[test]
fn a_taken_replica_set_name_is_own_or_increments_the_collision_count() {
    let mut world = SimulatedCluster::new(deployment(2, rolling("25%", "25%")));
    world.settle();
    let mut holder = world.sets[0].clone();
    assert_eq!(collision(&world.d, &holder), Collision::Ours);
    holder.metadata.owner_references = None;
    let Collision::Renamed(action) = collision(&world.d, &holder) else {
        panic!("the set has another owner")
    };
    world.take(&action);
    let name = world.sets.remove(0).metadata.name;
    world.settle();
    assert_ne!(world.sets[0].metadata.name, name);
}

#[test]
fn a_replica_failure_is_copied_to_the_deployment_while_it_lasts() {
    let mut world = SimulatedCluster::new(deployment(2, rolling("25%", "25%")));
    world.settle();
    let condition =
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}]);
    world.sets[0].status.get_or_insert_default().conditions = Some(from_value(condition).unwrap());
    world.settle();
    assert_eq!(world.reason("ReplicaFailure"), "FailedCreate");
    world.finish();
    assert!(world.condition("ReplicaFailure").is_none());
}

#[test]
fn an_empty_selector_is_refused() {
    let mut d = deployment(2, rolling("25%", "25%"));
    d.spec.as_mut().unwrap().selector.match_labels = None;
    let mut world = SimulatedCluster::new(d);
    world.settle();
    assert_eq!((world.sets.len(), world.events.len()), (0, 1));
}

#[derive(Clone, Debug)]
enum Step {
    Image(u8),
    Scale(i32),
    Pause(bool),
    Pods(i32),
    Lose(i32),
    Run,
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0u8..4).prop_map(Step::Image),
        1 => (0i32..12).prop_map(Step::Scale),
        1 => any::<bool>().prop_map(Step::Pause),
        6 => (0i32..6).prop_map(Step::Pods),
        1 => (1i32..3).prop_map(Step::Lose),
        8 => Just(Step::Run),
        1 => (1i64..700).prop_map(Step::Wait),
    ]
}

/// Runs the controller once and checks the invariants.
fn run_checked(world: &mut SimulatedCluster) -> bool {
    let bounds = Bounds::of(&world.d);
    let (total, available) = (world.total(), world.available());
    let paused = world.d.spec.as_ref().unwrap().paused.unwrap_or(false);
    let sets = world.sets.len();
    let before: i64 =
        world.sets.iter().map(|s| revision_of(s.metadata.annotations.as_ref())).max().unwrap_or(0);
    let resized = world.sets.iter().any(|s| {
        let desired = super::revision::number(s.metadata.annotations.as_ref(), DESIRED_REPLICAS);
        super::status::size(s) > 0 && desired != Some(bounds.wanted)
    });
    let did = world.run();
    assert!(world.total() <= total.max(bounds.most()), "{total} -> {} of {bounds:?}", world.total());
    if !resized && !paused {
        let least = available.min(bounds.least());
        assert!(world.available() >= least, "{available} -> {} of {bounds:?}", world.available());
    }
    if paused {
        assert!(world.sets.len() <= sets, "a paused rollout makes no set");
    }
    let revisions = || world.sets.iter().map(|s| revision_of(s.metadata.annotations.as_ref()));
    let after = revisions().max().unwrap_or(0);
    assert!(after >= before || world.sets.len() < sets, "revisions only rise");
    if let (false, Some(new)) = (paused, world.new_set()) {
        assert_eq!(
            revision_of(new.metadata.annotations.as_ref()),
            after,
            "the new set holds the highest revision"
        );
    }
    did
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn rollout_invariants_hold_and_every_rollout_completes(
        replicas in 0i32..12,
        surge in prop_oneof![Just("25%"), Just("0"), Just("1"), Just("3"), Just("100%")],
        unavailable in prop_oneof![Just("25%"), Just("0"), Just("1"), Just("2")],
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = SimulatedCluster::new(deployment(replicas, rolling(surge, unavailable)));
        for step in steps {
            match step {
                Step::Image(n) => world.image(&format!("v{n}")),
                Step::Scale(n) => world.edit(|spec| spec.replicas = Some(n)),
                Step::Pause(p) => world.edit(|spec| spec.paused = Some(p)),
                Step::Pods(ready) => world.pods(ready),
                Step::Lose(n) => {
                    for set in &mut world.sets {
                        if let Some(status) = &mut set.status {
                            let left = (status.available_replicas.unwrap_or(0) - n).max(0);
                            status.available_replicas = Some(left);
                            status.ready_replicas = Some(left);
                        }
                    }
                }
                Step::Run => drop(run_checked(&mut world)),
                Step::Wait(seconds) => world.wait(seconds),
            }
        }
        world.edit(|spec| spec.paused = Some(false));
        for _ in 0..100 {
            for _ in 0..10 {
                run_checked(&mut world);
            }
            prop_assert_eq!(world.plan().actions, vec![], "ten runs over the same state come to rest");
            world.pods(3);
            if world.is_complete() && world.plan().actions.is_empty() {
                break;
            }
        }
        prop_assert!(world.is_complete(), "{:?} {:?}", world.sizes(), world.d.status);
        prop_assert!(world.sets.len() <= 3);
    }

    #[test]
    fn proportional_sizes_sum_up_and_are_never_negative(
        wanted in 0i32..40,
        surge in 0i32..10,
        sets in prop::collection::vec((1i32..20, 1i32..40), 1..6),
    ) {
        let bounds = Bounds { wanted, surge, unavailable: 0 };
        let mut sets: Vec<ActiveReplicaSet> = sets.into_iter().map(|(size, most_before)| ActiveReplicaSet { size, most_before }).collect();
        sets.sort_by_key(|s| -s.size);
        let sizes = proportional_sizes(bounds, &sets);
        prop_assert!(sizes.iter().all(|s| *s >= 0));
        let allowed = if wanted > 0 { bounds.most() } else { 0 };
        prop_assert_eq!(sizes.iter().sum::<i32>(), allowed, "{:?}", sizes);
    }

    #[test]
    fn the_new_set_never_grows_beyond_the_bounds(wanted in 0i32..20, surge in 0i32..5, old in 0i32..20, new in 0i32..20) {
        let bounds = Bounds { wanted, surge, unavailable: 1 };
        let next = new_size(bounds, old + new, new);
        prop_assert!(next <= wanted.max(new) && (next <= new || old + next <= bounds.most()));
    }
}

proptest! {
    #[test]
    fn replica_counts_up_to_the_end_of_their_type_overflow_nothing(
        wanted in prop::sample::select(vec![0, 1, i32::MAX - 1, i32::MAX]),
        surge in prop::sample::select(vec![0, 1, i32::MAX]),
        sizes in prop::collection::vec(prop::sample::select(vec![0, 1, i32::MAX]), 1..4),
        available in prop::sample::select(vec![i32::MIN, 0, 1, i32::MAX]),
    ) {
        let bounds = Bounds { wanted, surge, unavailable: 0 };
        let old: Vec<OldReplicaSet> = sizes.iter().map(|spec| OldReplicaSet { spec: *spec, available }).collect();
        let next = old_sizes(bounds, &old, OldReplicaSet { spec: i32::MAX, available });
        prop_assert!(next.iter().zip(&sizes).all(|(next, size)| (0..=*size).contains(next)), "{:?}", next);
        let shares: Vec<ActiveReplicaSet> = sizes.iter().map(|size| ActiveReplicaSet { size: *size, most_before: 1 }).collect();
        prop_assert!(proportional_sizes(bounds, &shares).iter().all(|size| *size >= 0));
        prop_assert!(new_size(bounds, i32::MAX, sizes[0]) >= 0);
    }
}

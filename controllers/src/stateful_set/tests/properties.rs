//! Properties for all user and node behaviours, with a run between any two steps.

use super::super::identity::{Range, ordinal};
use super::super::plan::PlannedWrites;
use super::world::SimulatedCluster;
use crate::action::Action;
use crate::view::{Phase, Pod};
use proptest::prelude::*;
use serde_json::json;

/// An event by a user or a node. Numbers select among existing objects.
#[derive(Clone, Debug)]
enum Event {
    Ready(u8),
    Unready(u8),
    End(u8, bool),
    Gone(u8),
    Delete(u8),
    Scale(i32),
    Roll(u8),
    Partition(i32),
    Settle,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any::<u8>().prop_map(Event::Ready),
        1 => any::<u8>().prop_map(Event::Unready),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(pod, well)| Event::End(pod, well)),
        6 => any::<u8>().prop_map(Event::Gone),
        1 => any::<u8>().prop_map(Event::Delete),
        1 => (0i32..6).prop_map(Event::Scale),
        1 => (0u8..3).prop_map(Event::Roll),
        1 => (0i32..5).prop_map(Event::Partition),
        1 => Just(Event::Settle),
    ]
}

fn choose(world: &SimulatedCluster, number: u8, fits: impl Fn(&Pod) -> bool) -> Option<i32> {
    let fitting: Vec<_> = world.pods.values().filter(|pod| fits(pod)).collect();
    let pod = fitting.get(usize::from(number) % fitting.len().max(1))?;
    ordinal(&world.set, &pod.metadata.name)
}

fn happen(world: &mut SimulatedCluster, event: &Event) {
    let is_running = |pod: &Pod| !pod.status.phase.is_terminal();
    match event {
        Event::Ready(n) => {
            if let Some(pod) = choose(world, *n, |pod| is_running(pod) && !pod.ready()) {
                world.ready(pod, 100);
            }
        }
        Event::Unready(n) => {
            if let Some(pod) = choose(world, *n, is_running) {
                world.unready(pod);
            }
        }
        Event::End(n, well) => {
            if let Some(pod) = choose(world, *n, is_running) {
                world.phase(pod, if *well { Phase::Succeeded } else { Phase::Failed });
            }
        }
        Event::Gone(n) => {
            if let Some(pod) = choose(world, *n, |pod| pod.metadata.is_deleting()) {
                world.remove(pod);
            }
        }
        Event::Delete(n) => {
            if let Some(pod) = choose(world, *n, |pod| !pod.metadata.is_deleting()) {
                world.terminate(pod);
            }
        }
        Event::Scale(replicas) => world.scale(*replicas),
        Event::Roll(image) => world.roll(&format!("nginx:{image}")),
        Event::Partition(partition) => {
            let rolling = world.set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap();
            rolling.rolling_update.as_mut().unwrap().partition = Some(*partition);
        }
        Event::Settle => world.settle(),
    }
}

/// Checks of one run against the state before it.
struct RunChecker<'a> {
    world: &'a SimulatedCluster,
    range: Range,
    partition: i64,
    is_parallel: bool,
    most_unavailable: Option<i64>,
}

impl<'a> RunChecker<'a> {
    fn of(world: &'a SimulatedCluster) -> Self {
        let spec = world.set.spec.as_ref().unwrap();
        let rolling = spec.update_strategy.as_ref().unwrap().rolling_update.as_ref().unwrap();
        let most_unavailable = match &rolling.max_unavailable {
            Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(n)) => Some(i64::from(*n)),
            _ => None,
        };
        let range = Range::of(spec);
        Self {
            world,
            range,
            partition: range.start + i64::from(rolling.partition.unwrap()),
            is_parallel: spec.pod_management_policy.as_deref() == Some("Parallel"),
            most_unavailable,
        }
    }

    fn pod(&self, ordinal: i64) -> Option<&Pod> {
        self.world.pods.get(&format!("web-{ordinal}"))
    }

    fn is_available(&self, ordinal: i64) -> bool {
        self.pod(ordinal)
            .is_some_and(|p| p.status.phase == Phase::Running && p.ready() && !p.metadata.is_deleting())
    }

    fn evaluate(&self, work: &PlannedWrites) -> Result<(), TestCaseError> {
        let ordinal_of = |name: &str| i64::from(ordinal(&self.world.set, name).unwrap());
        let mut deleted = vec![];
        for step in &work.steps {
            for action in &step.actions {
                match action {
                    Action::Create(object) if object.resource.plural == "pods" => {
                        self.check_creation(ordinal_of(&object.name), object.json())?;
                    }
                    Action::Delete { target, .. } => deleted.push(ordinal_of(&target.name)),
                    Action::Update(object) => {
                        let claim: k8s_openapi::api::core::v1::PersistentVolumeClaim =
                            object.typed().unwrap();
                        let pod = claim.metadata.owner_references.iter().flatten().find(|o| o.kind == "Pod");
                        let is_wanted =
                            pod.is_some_and(|pod| self.range.contains(ordinal_of(&pod.name) as i32));
                        prop_assert!(!is_wanted, "a claim of a wanted ordinal is about to be deleted");
                    }
                    _ => {}
                }
            }
        }
        if !self.is_parallel {
            let is_change = |a: &Action| {
                matches!(a, Action::Delete { .. })
                    || matches!(a, Action::Create(o) if o.resource.plural == "pods")
            };
            let changes = work.steps.iter().flat_map(|s| &s.actions).filter(|a| is_change(a)).count();
            prop_assert!(changes <= 1 || self.most_unavailable.is_some(), "one at a time");
        }
        self.check_deletions(&deleted)
    }

    fn check_creation(&self, ordinal: i64, json: &str) -> Result<(), TestCaseError> {
        prop_assert!(self.pod(ordinal).is_none(), "a second pod of one ordinal");
        prop_assert!((self.range.start..self.range.end).contains(&ordinal));
        if !self.is_parallel {
            prop_assert!((self.range.start..ordinal).all(|o| self.is_available(o)), "out of order");
        }
        let pod: Pod = serde_json::from_str(json).unwrap();
        let status = self.world.set.status.as_ref();
        if let Some(current) = status.and_then(|s| s.current_revision.as_ref())
            && ordinal < self.partition
            && self.world.revisions.iter().any(|r| r.metadata.name.as_ref() == Some(current))
        {
            prop_assert_eq!(
                &pod.metadata.labels["controller-revision-hash"],
                current,
                "across the partition"
            );
        }
        Ok(())
    }

    fn check_deletions(&self, deleted: &[i64]) -> Result<(), TestCaseError> {
        let mut costly = 0;
        for ordinal in deleted {
            let pod = self.pod(*ordinal).unwrap();
            let is_ended = pod.status.phase.is_terminal();
            if !(self.range.start..self.range.end).contains(ordinal) {
                let above = self
                    .world
                    .pods
                    .keys()
                    .filter_map(|name| super::super::identity::ordinal(&self.world.set, name));
                let above = above.map(i64::from).filter(|o| o > ordinal && *o >= self.range.end).count();
                let is_all_well = (self.range.start..self.range.end).all(|o| self.is_available(o));
                prop_assert!(self.is_parallel || above == 0 && is_all_well, "scaled down out of order");
            } else if !is_ended {
                prop_assert!(*ordinal >= self.partition, "across the partition");
                costly += i64::from(self.is_available(*ordinal));
                if self.most_unavailable.is_none() {
                    let above = *ordinal + 1..self.range.end;
                    prop_assert!(above.clone().all(|o| self.is_available(o)), "an update does not wait");
                }
            }
        }
        if costly > 0 {
            let available = (self.range.start..self.range.end).filter(|o| self.is_available(*o)).count();
            let missing = self.range.len() - i64::try_from(available).unwrap();
            if let Some(most) = self.most_unavailable {
                prop_assert!(missing + costly <= most.max(1), "{missing} + {costly} > {most}");
            } else if !self.is_parallel {
                prop_assert!(missing + costly <= 1);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn order_partition_and_claims_hold_and_every_stateful_set_converges(
        parallel in any::<bool>(),
        most_unavailable in prop::option::of(1i32..4),
        start in 0i32..3,
        policy in (any::<bool>(), any::<bool>()),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let word = |deletes: bool| if deletes { "Delete" } else { "Retain" };
        let mut rolling = json!({"partition": 0});
        if let Some(most) = most_unavailable {
            rolling["maxUnavailable"] = json!(most);
        }
        let mut world = SimulatedCluster::new(json!({
            "replicas": 3, "ordinals": {"start": start},
            "podManagementPolicy": if parallel { "Parallel" } else { "OrderedReady" },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": word(policy.0), "whenDeleted": word(policy.1)},
        }));
        for event in &events {
            happen(&mut world, event);
            world.collect_garbage();
            let work = world.plan();
            RunChecker::of(&world).evaluate(&work)?;
            world.apply(&work);
            prop_assert_eq!(
                world.set.status.as_ref().and_then(|s| s.observed_generation).unwrap_or(0) <= world.set.metadata.generation.unwrap(),
                true
            );
        }
        world.settle();
        let wanted = Range::of(world.set.spec.as_ref().unwrap());
        prop_assert_eq!(world.pods.len() as i64, wanted.len());
        let lacking = (wanted.start..wanted.end).filter(|o| !world.claims.contains_key(&format!("data-web-{o}"))).count();
        prop_assert_eq!(lacking, 0, "every pod has its claim");
        prop_assert_eq!(world.plan(), PlannedWrites { is_parallel: parallel, ..PlannedWrites::default() }, "it is at rest");
    }
}

//! Results of probes, computed instead of probed: the times at which results change follow from the probe's
//! settings and the container's health. Pure.

use crate::pod_object::{ContainerSpec, ProbeSpec};
use jiff::Timestamp;
use kstore_container_sim::time::later;
use std::time::Duration;

/// The probes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// The startup probe.
    Startup,
    /// The readiness probe.
    Readiness,
    /// The liveness probe.
    Liveness,
}

impl ProbeKind {
    /// The probe of this kind.
    pub fn of(self, spec: &ContainerSpec) -> Option<&ProbeSpec> {
        match self {
            Self::Startup => spec.startup_probe.as_ref(),
            Self::Readiness => spec.readiness_probe.as_ref(),
            Self::Liveness => spec.liveness_probe.as_ref(),
        }
    }
}

/// The health of the application in a container, as times after its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// When it has started up; `None`: never.
    pub started: Option<Duration>,
    /// When it is ready; `None`: never.
    pub ready: Option<Duration>,
    /// Start and length of a period in which it is not ready.
    pub unready: Option<(Duration, Duration)>,
    /// When it breaks for good; `None`: never.
    pub unhealthy: Option<Duration>,
}

impl Health {
    /// The health of an application that its own probes judge: it is well from its start on, as far as nothing is asked.
    pub fn of_process() -> Self {
        Self { started: Some(Duration::ZERO), ready: Some(Duration::ZERO), ..Self::default() }
    }
}

/// The probe that failed for good, so that its container is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condemned {
    /// The startup probe failed too often.
    Startup,
    /// The liveness probe failed too often.
    Liveness,
}

/// The current results of a container's probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the startup probe has passed, or there is none.
    pub started: bool,
    /// Whether the readiness probe passes, or, without one, the application is ready.
    pub ready: bool,
    /// The probe for which the container is to be killed, if any.
    pub condemned: Option<Condemned>,
    /// When the results change next.
    pub next: Option<Timestamp>,
}

/// The results at `now` for a container that started at `start`, of the probes whose results are `computed`.
pub fn judge(
    spec: &ContainerSpec,
    health: &Health,
    computed: impl Fn(ProbeKind) -> bool,
    start: Timestamp,
    now: Timestamp,
) -> Verdict {
    let kinds = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];
    compute(kinds.map(|kind| kind.of(spec).filter(|_| computed(kind))), health, start, now)
}

/// The results of the startup, readiness and liveness probe, as far as there are any.
fn compute(probes: [Option<&ProbeSpec>; 3], health: &Health, start: Timestamp, now: Timestamp) -> Verdict {
    let moments = Moments::of(probes, health, start);
    let passed = |moment: Option<Timestamp>| moment.is_some_and(|at| at <= now);
    let unready = passed(moments.unready_from) && !passed(moments.unready_until);
    Verdict {
        started: passed(moments.started),
        ready: passed(moments.ready) && !unready,
        condemned: match (passed(moments.startup_failed), passed(moments.liveness_failed)) {
            (true, _) => Some(Condemned::Startup),
            (false, true) => Some(Condemned::Liveness),
            (false, false) => None,
        },
        next: moments.all().into_iter().flatten().filter(|at| *at > now).min(),
    }
}

/// The times at which results change; `None`: never.
struct Moments {
    started: Option<Timestamp>,
    startup_failed: Option<Timestamp>,
    ready: Option<Timestamp>,
    unready_from: Option<Timestamp>,
    unready_until: Option<Timestamp>,
    liveness_failed: Option<Timestamp>,
}

impl Moments {
    fn of(
        [startup_probe, readiness, liveness]: [Option<&ProbeSpec>; 3],
        health: &Health,
        start: Timestamp,
    ) -> Self {
        let (started, startup_failed) = startup(startup_probe, health.started);
        let ready = started.and_then(|started| {
            let from = health.ready?.max(started);
            Some(match readiness {
                Some(probe) => probe.tick_from(from).saturating_add(probe.more(probe.success_threshold())),
                None => from,
            })
        });
        let unready = health.unready.map(|(from, length)| match readiness {
            Some(probe) => (
                probe.tick_from(from).saturating_add(probe.more(probe.failure_threshold())),
                probe
                    .tick_from(from.saturating_add(length))
                    .saturating_add(probe.more(probe.success_threshold())),
            ),
            None => (from, from.saturating_add(length)),
        });
        let liveness_failed = started.and_then(|started| {
            let (probe, from) = (liveness?, health.unhealthy?.max(started));
            Some(probe.tick_from(from).saturating_add(probe.more(probe.failure_threshold())))
        });
        let at = |offset: Option<Duration>| offset.map(|offset| later(start, offset));
        Self {
            started: at(started),
            startup_failed: at(startup_failed),
            ready: at(ready),
            unready_from: at(unready.map(|(from, _)| from)),
            unready_until: at(unready.map(|(_, until)| until)),
            liveness_failed: at(liveness_failed),
        }
    }

    fn all(&self) -> [Option<Timestamp>; 6] {
        [
            self.started,
            self.startup_failed,
            self.ready,
            self.unready_from,
            self.unready_until,
            self.liveness_failed,
        ]
    }
}

/// When a startup probe passes, or when it has failed too often. Without a probe: at once.
fn startup(probe: Option<&ProbeSpec>, healthy: Option<Duration>) -> (Option<Duration>, Option<Duration>) {
    let Some(probe) = probe else { return (Some(Duration::ZERO), None) };
    let failed = probe.initial_delay().saturating_add(probe.more(probe.failure_threshold()));
    match healthy.map(|from| probe.tick_from(from)) {
        Some(passed) if passed <= failed => (Some(passed), None),
        Some(_) | None => (None, Some(failed)),
    }
}

impl ProbeSpec {
    /// Time from the first of `looks` consecutive probes to the last.
    fn more(&self, looks: u32) -> Duration {
        self.period().saturating_mul(looks.saturating_sub(1))
    }

    /// Offset of the first probe that is not before `from`.
    pub(crate) fn tick_from(&self, from: Duration) -> Duration {
        let waiting = from.saturating_sub(self.initial_delay());
        let n = waiting.as_nanos().div_ceil(self.period().as_nanos());
        self.initial_delay()
            .saturating_add(self.period().saturating_mul(u32::try_from(n).unwrap_or(u32::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn healthy() -> Health {
        Health { started: Some(Duration::ZERO), ready: Some(Duration::ZERO), ..Health::default() }
    }

    fn probe(initial: i32, period: i32, failures: i32) -> Option<ProbeSpec> {
        let (initial_delay_seconds, period_seconds) = (Some(initial), Some(period));
        Some(ProbeSpec {
            initial_delay_seconds,
            period_seconds,
            failure_threshold: Some(failures),
            success_threshold: None,
            ..ProbeSpec::default()
        })
    }

    /// The results as `(second, started, ready, condemned)` at each change.
    fn story(spec: &ContainerSpec, health: &Health) -> Vec<(u64, bool, bool, Option<Condemned>)> {
        let mut now = START;
        let mut story = Vec::new();
        loop {
            let verdict = judge(spec, health, |_| true, START, now);
            let second = kstore_container_sim::time::between(START, now).as_secs();
            story.push((second, verdict.started, verdict.ready, verdict.condemned));
            match verdict.next {
                Some(next) => now = next,
                None => return story,
            }
        }
    }

    #[test]
    fn without_probes_a_container_is_ready_at_once() {
        assert_eq!(story(&ContainerSpec::default(), &healthy()), [(0, true, true, None)]);
    }

    #[test]
    fn readiness_waits_for_the_probe_and_for_startup() {
        let spec = ContainerSpec {
            startup_probe: probe(1, 2, 5),
            readiness_probe: probe(0, 4, 3),
            ..ContainerSpec::default()
        };
        let health = Health { started: Some(seconds(4)), ..healthy() };
        assert_eq!(
            story(&spec, &health),
            [(0, false, false, None), (5, true, false, None), (8, true, true, None)]
        );
    }

    #[test]
    fn a_startup_probe_that_never_passes_fails_the_container() {
        let spec = ContainerSpec { startup_probe: probe(0, 10, 3), ..ContainerSpec::default() };
        let health = Health { started: None, ..healthy() };
        assert_eq!(
            story(&spec, &health),
            [(0, false, false, None), (20, false, false, Some(Condemned::Startup))]
        );
    }

    #[test]
    fn liveness_fails_after_its_failure_threshold() {
        let spec = ContainerSpec { liveness_probe: probe(0, 10, 3), ..ContainerSpec::default() };
        let health = Health { unhealthy: Some(seconds(15)), ..healthy() };
        assert_eq!(
            story(&spec, &health),
            [(0, true, true, None), (40, true, true, Some(Condemned::Liveness))]
        );
    }

    #[test]
    fn probes_with_the_largest_settings_do_not_overflow() {
        let longest = Some(ProbeSpec {
            initial_delay_seconds: Some(i32::MAX),
            period_seconds: Some(i32::MAX),
            failure_threshold: Some(i32::MAX),
            success_threshold: Some(i32::MAX),
            ..ProbeSpec::default()
        });
        let spec = ContainerSpec {
            startup_probe: longest.clone(),
            readiness_probe: longest.clone(),
            liveness_probe: longest,
            ..ContainerSpec::default()
        };
        let health = Health {
            started: Some(Duration::MAX),
            ready: Some(Duration::MAX),
            unready: Some((Duration::MAX, Duration::MAX)),
            unhealthy: Some(Duration::MAX),
        };
        for now in [START, Timestamp::MAX] {
            judge(&spec, &health, |_| true, START, now);
            judge(&ContainerSpec::default(), &health, |_| true, START, now);
        }
    }

    #[test]
    fn a_container_can_stop_being_ready_for_a_while() {
        let health = Health { unready: Some((seconds(60), seconds(20))), ..healthy() };
        let expected = [(0, true, true, None), (60, true, false, None), (80, true, true, None)];
        assert_eq!(story(&ContainerSpec::default(), &health), expected);
    }

    proptest! {
        #[test]
        fn a_verdict_holds_until_the_moment_it_names(
            started in any::<u8>(), ready in any::<u8>(), initial in 0..20, period in 1..20, failures in 1..5, at in 0u64..400,
        ) {
            let spec = ContainerSpec {
                startup_probe: probe(initial, period, failures), readiness_probe: probe(initial, period, failures),
                ..ContainerSpec::default()
            };
            let health = Health { started: Some(seconds(started.into())), ready: Some(seconds(ready.into())), ..Health::default() };
            let now = later(START, seconds(at));
            let verdict = judge(&spec, &health, |_| true, START, now);
            assert!(!verdict.ready || verdict.started, "ready without started");
            let next = verdict.next.unwrap_or(later(now, seconds(1000)));
            let before = later(START, kstore_container_sim::time::between(START, next).saturating_sub(Duration::from_nanos(1)));
            if before > now {
                let again = judge(&spec, &health, |_| true, START, before);
                assert_eq!((again.started, again.ready, again.condemned), (verdict.started, verdict.ready, verdict.condemned));
            }
        }
    }
}

//! [`Effects`]: what the faults of a node do together at one moment. Pure.

use super::request::{FaultRequest, FaultValue};
use super::starts::StartFaults;
use super::table::FaultKind;
use crate::device::health::{DeviceFault, DeviceProblem};
use crate::limits::{PLEG_THRESHOLD, SHUTDOWN, SLICE_WIPE};
use crate::time::ClockError;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use std::collections::BTreeMap;
use std::time::Duration;

/// The message of a node that a fault makes not ready, if the fault names none: that of a kubelet whose runtime does not answer.
const NOT_READY: &str = "PLEG is not healthy: pleg was last seen active 3m10s ago; threshold is 3m0s";
/// The message of a node whose runtime does not answer.
const RUNTIME_DOWN: &str = "container runtime is down";

/// What the node's machine and kubelet do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Power {
    /// Both run.
    #[default]
    On,
    /// The kubelet does nothing; the containers run on.
    Hung,
    /// Nothing runs, and goes on later.
    Frozen,
    /// The machine is off; its containers have ended.
    Off,
}

/// The number of pods that a pressure evicts at most; `None`: no bound.
pub(crate) type EvictionBound = Option<u32>;

/// What the faults of a node do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) power: Power,
    /// Whether kubelet and API server do not reach each other.
    pub(crate) is_cut: bool,
    /// Why the node is not ready.
    pub(crate) not_ready: Option<String>,
    pub(crate) memory: Option<EvictionBound>,
    pub(crate) disk: Option<EvictionBound>,
    pub(crate) pids: Option<EvictionBound>,
    pub(crate) lacks_network: bool,
    /// Whether the kubelet ends its pods, because the machine is about to go off.
    pub(crate) shuts_down: bool,
    /// When the machine's owner takes it back; the node shows this time beforehand.
    pub(crate) reclaim: Option<Timestamp>,
    /// Whether the machine is gone for good.
    pub(crate) is_gone: bool,
    /// What is wrong with devices.
    pub(crate) devices: Vec<DeviceFault>,
    /// Drivers of devices whose slices are gone; an empty name stands for all.
    pub(crate) drivers_away: Vec<String>,
    /// Whether device plugins have not registered again: the node has none of their resources.
    pub(crate) plugins_away: bool,
    /// What is wrong with the clock.
    pub(crate) clock: ClockError,
    /// What the runtime and the starts of pods meet.
    pub(crate) starts: StartFaults,
}

/// A request, and since when its times count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) from: Timestamp,
    pub(crate) request: FaultRequest,
}

/// The faults of a node by origin: the annotation, NodeFaults, the handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFaults(BTreeMap<String, Vec<Asked>>);

/// The faults that hold, each with its beginning and its duration, and when that changes next.
pub(crate) struct Holding {
    pub(crate) faults: BTreeMap<(FaultKind, Timestamp), Option<Duration>>,
    pub(crate) effects: Effects,
    pub(crate) next: Option<Timestamp>,
}

impl NodeFaults {
    /// Replaces the requests of an origin; none withdraws them.
    pub(crate) fn set(&mut self, origin: &str, asked: Vec<Asked>) {
        match asked.is_empty() {
            false => drop(self.0.insert(origin.to_owned(), asked)),
            true => drop(self.0.remove(origin)),
        }
    }

    /// The requests of an origin.
    pub(crate) fn of(&self, origin: &str) -> &[Asked] {
        self.0.get(origin).map_or(&[], Vec::as_slice)
    }

    /// All requests, with their origins.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &[Asked])> {
        self.0.iter().map(|(origin, asked)| (origin.as_str(), asked.as_slice()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What holds at `now`.
    pub(crate) fn holding(&self, now: Timestamp) -> Holding {
        let mut holding = Holding { faults: BTreeMap::new(), effects: Effects::default(), next: None };
        for asked in self.0.values() {
            for Asked { from, request } in asked {
                let window = request.window(*from, now);
                holding.next = holding.next.into_iter().chain(window.next).min();
                // A machine that is gone does not come back when the request's moment is over.
                let since = window.since.or_else(|| {
                    let is_over = request.lasts_for_good() && window.activations > 0;
                    is_over.then_some(*from)
                });
                if let Some(since) = since {
                    holding.faults.insert((request.kind, since), request.shown_duration());
                    // What the fault does at last, it may do some time after its beginning.
                    let at = later(since, prelude(request));
                    if at <= now {
                        holding.effects.add(request, since);
                        continue;
                    }
                    holding.next = holding.next.into_iter().chain([at]).min();
                    match request.kind {
                        FaultKind::Reboot => holding.effects.shuts_down = true,
                        FaultKind::Reclaim => {
                            holding.effects.reclaim = holding.effects.reclaim.into_iter().chain([at]).min();
                        }
                        FaultKind::KubeletRestart => {
                            holding.effects.power = holding.effects.power.max(Power::Hung);
                        }
                        FaultKind::RuntimeDown => holding.effects.runtime_is_down(false),
                        _ => {}
                    }
                }
            }
        }
        holding
    }
}

/// From the beginning of a fault until its last effect: a node shuts down before it is off, has notice before its machine is taken back,
/// and keeps the slices of a driver for a while. A kubelet runs again before its device plugins do, and reports the relist of a runtime
/// that is down only after a while.
fn prelude(request: &FaultRequest) -> Duration {
    match (request.kind, &request.value) {
        (FaultKind::Reboot, _) => SHUTDOWN,
        (FaultKind::DriverAway, _) => SLICE_WIPE,
        (FaultKind::RuntimeDown, _) => PLEG_THRESHOLD,
        (FaultKind::KubeletRestart, FaultValue::Duration(time)) => *time,
        (FaultKind::Reclaim, FaultValue::Duration(notice)) => *notice,
        _ => Duration::ZERO,
    }
}

impl Effects {
    /// Adds the last effect of a fault that began at `since`.
    fn add(&mut self, request: &FaultRequest, since: Timestamp) {
        let bound = if let FaultValue::Number(number) = request.value { Some(number) } else { None };
        let text = if let FaultValue::Text(text) = &request.value { Some(text.clone()) } else { None };
        match request.kind {
            FaultKind::Crash | FaultKind::Reboot => self.power = self.power.max(Power::Off),
            FaultKind::Freeze => self.power = self.power.max(Power::Frozen),
            FaultKind::Hang => self.power = self.power.max(Power::Hung),
            FaultKind::KubeletRestart => self.plugins_away = true,
            FaultKind::Partition | FaultKind::Flap => self.is_cut = true,
            FaultKind::NotReady => {
                self.not_ready.get_or_insert(text.unwrap_or_else(|| NOT_READY.to_owned()));
            }
            FaultKind::MemoryPressure => self.memory = Some(bound),
            FaultKind::DiskPressure => self.disk = Some(bound),
            FaultKind::PidPressure => self.pids = Some(bound),
            FaultKind::NetworkUnavailable => self.lacks_network = true,
            FaultKind::Terminate | FaultKind::Reclaim => self.is_gone = true,
            FaultKind::DeviceUnhealthy => self.device(text, DeviceProblem::Unhealthy),
            FaultKind::GpuLost => self.device(text, DeviceProblem::Lost),
            FaultKind::Xid => {
                if let FaultValue::Code(code, device) = &request.value {
                    self.device(device.clone(), DeviceProblem::Xid(*code));
                }
            }
            FaultKind::DriverAway => self.drivers_away.push(text.unwrap_or_default()),
            FaultKind::Slow => StartFaults::slower(&mut self.starts.slow, bound),
            FaultKind::PullSlow => StartFaults::slower(&mut self.starts.pull_slow, bound),
            FaultKind::RuntimeDown => self.runtime_is_down(true),
            FaultKind::VolumeAttachFail => self.starts.attach_fails = true,
            FaultKind::ClockSkew | FaultKind::ClockDrift | FaultKind::PullFail | FaultKind::MountSlow => {
                self.add_value(request, since);
            }
        }
    }

    /// Adds the effect of a fault that is its value.
    fn add_value(&mut self, request: &FaultRequest, since: Timestamp) {
        match request.value {
            FaultValue::Offset(skew) => self.clock.skew = self.clock.skew.saturating_add(skew),
            FaultValue::Millionths(millionths) => self.clock.drifts.push((since, millionths)),
            FaultValue::Pull(error) => self.starts.pull = self.starts.pull.or(Some(error)),
            FaultValue::Duration(time) => self.starts.mount = self.starts.mount.max(time),
            FaultValue::None | FaultValue::Text(_) | FaultValue::Number(_) | FaultValue::Code(..) => {}
        }
    }

    /// The runtime does not answer; `is_stale`: for so long that its relist counts as unhealthy, too.
    fn runtime_is_down(&mut self, is_stale: bool) {
        self.starts.is_runtime_down = true;
        self.not_ready.get_or_insert_with(|| match is_stale {
            true => format!("[{RUNTIME_DOWN}, {NOT_READY}]"),
            false => RUNTIME_DOWN.to_owned(),
        });
    }

    fn device(&mut self, device: Option<String>, problem: DeviceProblem) {
        self.devices.push(DeviceFault { device, problem });
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::parse;
    use super::*;

    fn asked(text: &str, from: Timestamp) -> Vec<Asked> {
        parse(text).unwrap().into_iter().map(|request| Asked { from, request }).collect()
    }

    #[test]
    fn faults_of_all_origins_hold_together_and_the_strongest_power_wins() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut faults = NodeFaults::default();
        let asked = |text, from| asked(text, at(from));
        faults.set("annotation", asked("freeze; not-ready=why; memory-pressure=2+60", 0));
        faults.set("node-fault/a", asked("crash@5+10; partition", 0));
        let early = faults.holding(at(1));
        assert_eq!((early.effects.power, early.next), (Power::Frozen, Some(at(5))));
        assert_eq!(early.effects.memory, Some(Some(2)));
        assert!(early.effects.is_cut && early.effects.not_ready.as_deref() == Some("why"));
        let late = faults.holding(at(7));
        assert_eq!((late.effects.power, late.next), (Power::Off, Some(at(15))));
        assert_eq!(late.faults.len(), 5);
        faults.set("annotation", Vec::new());
        faults.set("node-fault/a", Vec::new());
        assert!(faults.is_empty() && faults.holding(at(7)).effects == Effects::default());
        faults.set("annotation", asked("terminate", 0));
        assert!(faults.holding(at(900)).effects.is_gone);
    }

    #[test]
    fn faults_of_clock_runtime_and_starts_add_up() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut faults = NodeFaults::default();
        let text = "clock-skew=5m; clock-skew=-1m; clock-drift=100@10; slow=3; slow=2; pull-slow=4; pull-fail=rate-limit; \
                    mount-slow=9; volume-attach-fail; runtime-down@20+300; kubelet-restart=5@1";
        faults.set("annotation", asked(text, at(0)));
        let early = faults.holding(at(3));
        assert_eq!(
            (early.effects.power, early.effects.plugins_away, early.next),
            (Power::Hung, false, Some(at(6)))
        );
        let after = faults.holding(at(6));
        assert_eq!(
            (after.effects.power, after.effects.plugins_away, after.next),
            (Power::On, true, Some(at(10)))
        );
        let Effects { clock, starts, plugins_away, not_ready, .. } = faults.holding(at(20)).effects;
        assert_eq!(clock.skew.as_secs(), 240);
        assert_eq!(clock.drifts, [(at(10), 100)]);
        let expected = StartFaults {
            is_runtime_down: true,
            slow: 3,
            pull_slow: 4,
            pull: Some(crate::behavior::PullError::RateLimit),
            attach_fails: true,
            mount: Duration::from_secs(9),
        };
        assert_eq!((starts, plugins_away), (expected, false));
        assert_eq!(not_ready.as_deref(), Some("container runtime is down"));
        let stale = faults.holding(at(200)).effects.not_ready.unwrap();
        assert!(stale.starts_with("[container runtime is down, PLEG is not healthy: "), "{stale}");
        let healed = faults.holding(at(320)).effects;
        assert!(!healed.starts.is_runtime_down && healed.not_ready.is_none());
    }

    #[test]
    fn a_machine_is_reclaimed_after_its_notice_and_slices_outlive_their_driver_for_a_while() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut faults = NodeFaults::default();
        let text = "reclaim=60s@10; driver-away=dra.cpu+50; xid=79,gpu-3; gpu-lost";
        faults.set("annotation", asked(text, at(0)));
        let early = faults.holding(at(15));
        assert_eq!(
            (early.effects.reclaim, early.effects.is_gone, early.next),
            (Some(at(70)), false, Some(at(30)))
        );
        assert!(early.effects.drivers_away.is_empty());
        let device = |name: Option<&str>, problem| DeviceFault { device: name.map(str::to_owned), problem };
        let expected = [device(Some("gpu-3"), DeviceProblem::Xid(79)), device(None, DeviceProblem::Lost)];
        assert_eq!(early.effects.devices, expected);
        assert_eq!(faults.holding(at(30)).effects.drivers_away, ["dra.cpu"]);
        assert!(faults.holding(at(50)).effects.drivers_away.is_empty());
        let late = faults.holding(at(70));
        assert!(late.effects.is_gone && late.effects.reclaim.is_none());
    }
}

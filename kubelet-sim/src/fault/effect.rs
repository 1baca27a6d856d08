//! [`Effects`]: what the faults of a node do together at one moment. Pure.

use super::request::{FaultRequest, FaultValue};
use super::table::FaultKind;
use crate::device::health::{DeviceFault, DeviceProblem};
use crate::limits::{SHUTDOWN, SLICE_WIPE};
use jiff::Timestamp;
use kstore_container_sim::time::later;
use std::collections::BTreeMap;
use std::time::Duration;

/// The message of a node that a fault makes not ready, if the fault names none: that of a kubelet whose runtime does not answer.
const NOT_READY: &str = "PLEG is not healthy: pleg was last seen active 3m10s ago; threshold is 3m0s";

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
}

/// Requests of one origin, and when they were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) from: Timestamp,
    pub(crate) requests: Vec<FaultRequest>,
}

/// The faults of a node by origin: the annotation, NodeFaults, the handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFaults(BTreeMap<String, Asked>);

/// The faults that hold, each with its beginning and its duration, and when that changes next.
pub(crate) struct Holding {
    pub(crate) faults: BTreeMap<(FaultKind, Timestamp), Option<Duration>>,
    pub(crate) effects: Effects,
    pub(crate) next: Option<Timestamp>,
}

impl NodeFaults {
    /// Replaces the requests of an origin; none withdraws them.
    pub(crate) fn set(&mut self, origin: &str, asked: Option<Asked>) {
        match asked.filter(|asked| !asked.requests.is_empty()) {
            Some(asked) => drop(self.0.insert(origin.to_owned(), asked)),
            None => drop(self.0.remove(origin)),
        }
    }

    /// The requests of an origin.
    pub(crate) fn of(&self, origin: &str) -> Option<&Asked> {
        self.0.get(origin)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What holds at `now`.
    pub(crate) fn holding(&self, now: Timestamp) -> Holding {
        let mut holding = Holding { faults: BTreeMap::new(), effects: Effects::default(), next: None };
        for asked in self.0.values() {
            for request in &asked.requests {
                let window = request.window(asked.from, now);
                holding.next = holding.next.into_iter().chain(window.next).min();
                // A machine that is gone does not come back when the request's moment is over.
                let since = window.since.or_else(|| {
                    let is_over = request.kind == FaultKind::Terminate && window.activations > 0;
                    is_over.then_some(asked.from)
                });
                if let Some(since) = since {
                    holding.faults.insert((request.kind, since), request.duration);
                    // What the fault does at last, it may do some time after its beginning.
                    let at = later(since, prelude(request));
                    if at <= now {
                        holding.effects.add(request);
                        continue;
                    }
                    holding.next = holding.next.into_iter().chain([at]).min();
                    match request.kind {
                        FaultKind::Reboot => holding.effects.shuts_down = true,
                        FaultKind::Reclaim => {
                            holding.effects.reclaim = holding.effects.reclaim.into_iter().chain([at]).min();
                        }
                        _ => {}
                    }
                }
            }
        }
        holding
    }
}

/// From the beginning of a fault until its last effect: a node shuts down before it is off, has notice before its machine is taken back,
/// and keeps the slices of a driver for a while.
fn prelude(request: &FaultRequest) -> Duration {
    match (request.kind, &request.value) {
        (FaultKind::Reboot, _) => SHUTDOWN,
        (FaultKind::DriverAway, _) => SLICE_WIPE,
        (FaultKind::Reclaim, FaultValue::Duration(notice)) => *notice,
        _ => Duration::ZERO,
    }
}

impl Effects {
    fn add(&mut self, request: &FaultRequest) {
        let bound = match request.value {
            FaultValue::Number(number) => Some(number),
            FaultValue::None | FaultValue::Text(_) | FaultValue::Duration(_) | FaultValue::Code(..) => None,
        };
        let text = match &request.value {
            FaultValue::Text(text) => Some(text.clone()),
            FaultValue::None | FaultValue::Number(_) | FaultValue::Duration(_) | FaultValue::Code(..) => None,
        };
        match request.kind {
            FaultKind::Crash | FaultKind::Reboot => self.power = self.power.max(Power::Off),
            FaultKind::Freeze => self.power = self.power.max(Power::Frozen),
            FaultKind::Hang | FaultKind::KubeletRestart => self.power = self.power.max(Power::Hung),
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
        }
    }

    fn device(&mut self, device: Option<String>, problem: DeviceProblem) {
        self.devices.push(DeviceFault { device, problem });
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::parse;
    use super::*;

    #[test]
    fn faults_of_all_origins_hold_together_and_the_strongest_power_wins() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut faults = NodeFaults::default();
        let asked = |text, from| Some(Asked { from: at(from), requests: parse(text).unwrap() });
        faults.set("annotation", asked("freeze; not-ready=why; memory-pressure=2+60", 0));
        faults.set("node-fault/a", asked("crash@5+10; partition", 0));
        let early = faults.holding(at(1));
        assert_eq!((early.effects.power, early.next), (Power::Frozen, Some(at(5))));
        assert_eq!(early.effects.memory, Some(Some(2)));
        assert!(early.effects.is_cut && early.effects.not_ready.as_deref() == Some("why"));
        let late = faults.holding(at(7));
        assert_eq!((late.effects.power, late.next), (Power::Off, Some(at(15))));
        assert_eq!(late.faults.len(), 5);
        faults.set("annotation", None);
        faults.set("node-fault/a", None);
        assert!(faults.is_empty() && faults.holding(at(7)).effects == Effects::default());
        faults.set("annotation", asked("terminate", 0));
        assert!(faults.holding(at(900)).effects.is_gone);
    }

    #[test]
    fn a_machine_is_reclaimed_after_its_notice_and_slices_outlive_their_driver_for_a_while() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut faults = NodeFaults::default();
        let requests = parse("reclaim=60s@10; driver-away=dra.cpu+50; xid=79,gpu-3; gpu-lost").unwrap();
        faults.set("annotation", Some(Asked { from: at(0), requests }));
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

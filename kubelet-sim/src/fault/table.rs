//! The faults of simulated nodes: one row each, with the form of its value and what it does. Rows without an effect are refused by name,
//! with the reason.

/// What a fault does to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// Power off; the containers end.
    Crash,
    /// A paused virtual machine.
    Freeze,
    /// The kubelet does nothing, the containers run on.
    Hang,
    /// Kubelet and containers run, but reach no API server.
    Partition,
    /// Shutdown of the node, then a crash of some time.
    Reboot,
    /// Heartbeats say that the node is not ready.
    NotReady,
    /// Too little memory.
    MemoryPressure,
    /// Too little disk.
    DiskPressure,
    /// Too few process numbers.
    PidPressure,
    /// No route for the node.
    NetworkUnavailable,
    /// The machine is gone.
    Terminate,
    /// Kubelet and API server lose each other again and again.
    Flap,
    /// The kubelet ends and starts again.
    KubeletRestart,
    /// The machine is gone after a notice.
    Reclaim,
    /// A device is unhealthy.
    DeviceUnhealthy,
    /// A GPU reports an error.
    Xid,
    /// A GPU fell off its bus.
    GpuLost,
    /// A driver of devices is away.
    DriverAway,
}

/// The form of a fault's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueForm {
    /// None.
    None,
    /// A text, or none.
    Text,
    /// A duration, or none for this many seconds.
    Duration(u64),
    /// A whole number above zero, or none.
    Number,
    /// Two durations with a comma.
    Durations,
    /// A text, which is required.
    Name,
    /// A number, and perhaps a comma and a text.
    Code,
}

/// A fault.
pub(crate) struct FaultRow {
    /// The name in annotations and NodeFaults.
    pub(crate) name: &'static str,
    /// The effect, or why there is none.
    pub(crate) effect: Result<FaultKind, &'static str>,
    /// The form of its value.
    pub(crate) value: ValueForm,
}

const fn row(name: &'static str, kind: FaultKind, value: ValueForm) -> FaultRow {
    FaultRow { name, effect: Ok(kind), value }
}

const fn missing(name: &'static str, why: &'static str) -> FaultRow {
    FaultRow { name, effect: Err(why), value: ValueForm::Text }
}

const NO_SPEED: &str = "the times of a node's pods come from annotations alone; give the pods longer ones";

/// All faults, in the order in which the documentation lists them.
pub(crate) const FAULTS: &[FaultRow] = &[
    row("crash", FaultKind::Crash, ValueForm::None),
    row("freeze", FaultKind::Freeze, ValueForm::None),
    row("hang", FaultKind::Hang, ValueForm::None),
    row("partition", FaultKind::Partition, ValueForm::None),
    row("reboot", FaultKind::Reboot, ValueForm::Duration(30)),
    row("not-ready", FaultKind::NotReady, ValueForm::Text),
    row("memory-pressure", FaultKind::MemoryPressure, ValueForm::Number),
    row("disk-pressure", FaultKind::DiskPressure, ValueForm::Number),
    row("pid-pressure", FaultKind::PidPressure, ValueForm::Number),
    row("network-unavailable", FaultKind::NetworkUnavailable, ValueForm::None),
    row("terminate", FaultKind::Terminate, ValueForm::None),
    row("reclaim", FaultKind::Reclaim, ValueForm::Duration(120)),
    row("flap", FaultKind::Flap, ValueForm::Durations),
    row("kubelet-restart", FaultKind::KubeletRestart, ValueForm::Duration(2)),
    row("device-unhealthy", FaultKind::DeviceUnhealthy, ValueForm::Name),
    row("xid", FaultKind::Xid, ValueForm::Code),
    row("gpu-lost", FaultKind::GpuLost, ValueForm::Text),
    row("driver-away", FaultKind::DriverAway, ValueForm::Text),
    missing("slow", NO_SPEED),
    missing("runtime-down", "starts of containers cannot fail by node; use not-ready"),
    missing("clock-skew", "all nodes read the cluster's clock"),
    missing("clock-drift", "all nodes read the cluster's clock"),
    missing("pull-fail", "use the annotation image-pull of pods, or --missing-image"),
    missing("pull-slow", NO_SPEED),
    missing("volume-attach-fail", "attachments of volumes cannot fail by node"),
    missing("mount-slow", NO_SPEED),
];

/// The row of a name.
///
/// # Errors
/// The fault is unknown, or has no effect; the text says what to write instead.
pub(crate) fn find(name: &str) -> Result<(&'static FaultRow, FaultKind), String> {
    let Some(row) = FAULTS.iter().find(|row| row.name == name) else {
        let distance = |known: &&str| strsim::osa_distance(name, known);
        let nearest = FAULTS.iter().map(|row| row.name).min_by_key(distance);
        return Err(match nearest.filter(|known| distance(known) * 3 <= known.len()) {
            Some(nearest) => format!("unknown fault {name:?}; did you mean {nearest:?}?"),
            None => {
                let known = FAULTS.iter().filter(|row| row.effect.is_ok()).map(|row| row.name);
                format!("unknown fault {name:?}; known: {}", known.collect::<Vec<_>>().join(", "))
            }
        });
    };
    match row.effect {
        Ok(kind) => Ok((row, kind)),
        Err(why) => Err(format!("fault {name:?} is not simulated: {why}")),
    }
}

impl FaultKind {
    /// The name in annotations.
    pub(crate) fn name(self) -> &'static str {
        FAULTS.iter().find(|row| row.effect == Ok(self)).map_or("", |row| row.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_each_fault_says_what_it_does_or_why_not() {
        assert_eq!(FAULTS.len(), 26);
        assert_eq!(FAULTS.iter().map(|row| row.name).collect::<BTreeSet<_>>().len(), 26);
        for row in FAULTS {
            match row.effect {
                Ok(kind) => assert_eq!(kind.name(), row.name),
                Err(why) => assert!(find(row.name).err().unwrap().ends_with(why)),
            }
        }
        let unknown = find("disk-presure").err().unwrap();
        assert_eq!(unknown, "unknown fault \"disk-presure\"; did you mean \"disk-pressure\"?");
        let far = find("meltdown").err().unwrap();
        assert!(far.starts_with("unknown fault \"meltdown\"; known: crash, "), "{far}");
    }
}

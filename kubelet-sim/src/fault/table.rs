//! The faults of simulated nodes: one row each, with the form of its value and what it does.

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
    /// Whatever the kubelet does takes longer.
    Slow,
    /// The container runtime does not answer.
    RuntimeDown,
    /// The clock is wrong.
    ClockSkew,
    /// The clock is too fast or too slow.
    ClockDrift,
    /// Pulls of images fail.
    PullFail,
    /// Pulls of images take longer.
    PullSlow,
    /// Volumes of claims cannot be attached.
    VolumeAttachFail,
    /// Volumes take some time to mount.
    MountSlow,
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
    /// A whole number from 2 to 1,000: how many times as long something takes.
    Factor,
    /// A duration, perhaps with a minus, which is required.
    Offset,
    /// Millionths, perhaps with a minus, which are required.
    Millionths,
    /// A duration, which is required.
    Length,
    /// A kind of failed pulls, or none for a registry that does not answer.
    PullError,
}

/// A fault.
pub(crate) struct FaultRow {
    /// The name in annotations and NodeFaults.
    pub(crate) name: &'static str,
    /// The effect.
    pub(crate) kind: FaultKind,
    /// The form of its value.
    pub(crate) value: ValueForm,
}

const fn row(name: &'static str, kind: FaultKind, value: ValueForm) -> FaultRow {
    FaultRow { name, kind, value }
}

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
    row("slow", FaultKind::Slow, ValueForm::Factor),
    row("runtime-down", FaultKind::RuntimeDown, ValueForm::None),
    row("clock-skew", FaultKind::ClockSkew, ValueForm::Offset),
    row("clock-drift", FaultKind::ClockDrift, ValueForm::Millionths),
    row("pull-fail", FaultKind::PullFail, ValueForm::PullError),
    row("pull-slow", FaultKind::PullSlow, ValueForm::Factor),
    row("volume-attach-fail", FaultKind::VolumeAttachFail, ValueForm::None),
    row("mount-slow", FaultKind::MountSlow, ValueForm::Length),
];

/// The row of a name.
///
/// # Errors
/// The fault is unknown; the text has the nearest name, or all.
pub(crate) fn find(name: &str) -> Result<&'static FaultRow, String> {
    if let Some(row) = FAULTS.iter().find(|row| row.name == name) {
        return Ok(row);
    }
    let distance = |known: &&str| strsim::osa_distance(name, known);
    let nearest = FAULTS.iter().map(|row| row.name).min_by_key(distance);
    Err(match nearest.filter(|known| distance(known) * 3 <= known.len()) {
        Some(nearest) => format!("unknown fault {name:?}; did you mean {nearest:?}?"),
        None => {
            let known = FAULTS.iter().map(|row| row.name);
            format!("unknown fault {name:?}; known: {}", known.collect::<Vec<_>>().join(", "))
        }
    })
}

impl FaultKind {
    /// The name in annotations.
    pub(crate) fn name(self) -> &'static str {
        FAULTS.iter().find(|row| row.kind == self).map_or("", |row| row.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_effects_are_unique_and_unknown_names_are_corrected() {
        assert_eq!(FAULTS.len(), 26);
        assert_eq!(FAULTS.iter().map(|row| row.name).collect::<BTreeSet<_>>().len(), 26);
        assert_eq!(FAULTS.iter().map(|row| row.kind).collect::<BTreeSet<_>>().len(), 26);
        for row in FAULTS {
            assert_eq!((find(row.name).unwrap().kind, row.kind.name()), (row.kind, row.name));
        }
        let unknown = find("disk-presure").err().unwrap();
        assert_eq!(unknown, "unknown fault \"disk-presure\"; did you mean \"disk-pressure\"?");
        let far = find("meltdown").err().unwrap();
        assert!(far.starts_with("unknown fault \"meltdown\"; known: crash, "), "{far}");
    }
}

//! [`FaultRequest`]: a fault with its times, as the annotation `kubelet-sim.kstore.io/fault` of a Node and the spec of a NodeFault have
//! them. Pure.

use super::table::{FaultKind, ValueForm, find};
use crate::behavior::duration;
use crate::limits::{FAULTS_PER_NODE, SHUTDOWN};
use jiff::Timestamp;
use kstore_container_sim::time::{between, later};
use std::time::Duration;

/// The name of the annotation after [`crate::behavior::ANNOTATION_PREFIX`].
pub(crate) const ANNOTATION: &str = "fault";

/// The value of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultValue {
    /// None was given, and there is no default.
    None,
    /// A text.
    Text(String),
    /// A duration.
    Duration(Duration),
    /// A number.
    Number(u32),
    /// The code of an error, and the device that reports it if one is named.
    Code(u32, Option<String>),
}

/// A fault and when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FaultRequest {
    pub(crate) kind: FaultKind,
    pub(crate) value: FaultValue,
    /// From the request until the fault begins.
    pub(crate) after: Duration,
    /// How long it holds; `None`: until the request is withdrawn.
    pub(crate) duration: Option<Duration>,
    /// From one beginning to the next; `None`: it happens once.
    pub(crate) every: Option<Duration>,
}

/// What a request means at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// When the fault that holds now began; `None`: none holds.
    pub(crate) since: Option<Timestamp>,
    /// The number of beginnings so far.
    pub(crate) activations: u64,
    /// When that changes.
    pub(crate) next: Option<Timestamp>,
}

impl FaultRequest {
    /// A fault that holds from now on.
    pub(crate) fn at_once(kind: FaultKind, value: FaultValue) -> Self {
        Self { kind, value, after: Duration::ZERO, duration: None, every: None }
    }

    /// A fault by its name and value.
    ///
    /// # Errors
    /// The name is unknown or not simulated, or the value has another form.
    pub(crate) fn named(name: &str, value: Option<&str>) -> Result<Self, String> {
        let (row, kind) = find(name)?;
        let wrong = |expected: &str| {
            format!("fault {name:?}: value {:?} is not {expected}", value.unwrap_or_default())
        };
        let value = match (row.value, value) {
            (ValueForm::None, None) | (ValueForm::Text | ValueForm::Number, None) => FaultValue::None,
            (ValueForm::None, Some(_)) => return Err(format!("fault {name:?} has no value")),
            (ValueForm::Name | ValueForm::Code | ValueForm::Durations, None | Some("")) => {
                return Err(format!("fault {name:?} needs a value, such as {}", example(kind)));
            }
            (ValueForm::Text | ValueForm::Name, Some(text)) => FaultValue::Text(text.to_owned()),
            (ValueForm::Code, Some(text)) => {
                let (code, device) = match text.split_once(',') {
                    Some((code, device)) => (code, Some(device.trim().to_owned())),
                    None => (text, None),
                };
                FaultValue::Code(code.trim().parse().map_err(|_| wrong(example(kind)))?, device)
            }
            (ValueForm::Durations, Some(text)) => {
                let (up, down) = text.split_once(',').ok_or_else(|| wrong(example(kind)))?;
                let (up, down) = (duration(up.trim()).map_err(wrong)?, duration(down.trim()).map_err(wrong)?);
                if up.is_zero() || down.is_zero() {
                    return Err(wrong("two durations above zero"));
                }
                return Ok(Self {
                    after: up,
                    duration: Some(down),
                    every: Some(up + down),
                    ..Self::at_once(kind, FaultValue::None)
                });
            }
            (ValueForm::Duration(seconds), None) => FaultValue::Duration(Duration::from_secs(seconds)),
            (ValueForm::Duration(_), Some(text)) => FaultValue::Duration(duration(text).map_err(wrong)?),
            (ValueForm::Number, Some(text)) => {
                let number = text.parse().ok().filter(|number| *number > 0);
                FaultValue::Number(number.ok_or_else(|| wrong("a whole number above zero"))?)
            }
        };
        let mut request = Self::at_once(kind, value);
        match (kind, &request.value) {
            // The value of a reboot is how long the machine is off.
            (FaultKind::Reboot, FaultValue::Duration(time)) => request.duration = Some(*time + SHUTDOWN),
            (FaultKind::KubeletRestart, FaultValue::Duration(time)) => request.duration = Some(*time),
            (FaultKind::Terminate, _) => request.duration = Some(Duration::ZERO),
            _ => {}
        }
        Ok(request)
    }

    /// The fault of a NodeFault's spec.
    ///
    /// # Errors
    /// The name, the value or a time is wrong.
    pub(crate) fn of_object(
        name: &str,
        value: Option<&str>,
        length: Option<&str>,
        every: Option<&str>,
    ) -> Result<Self, String> {
        let of = |field: &str, text: &str| {
            duration(text).map_err(|expected| format!("{field} {text:?} is not {expected}"))
        };
        let mut request = Self::named(name, value)?;
        if let Some(length) = length {
            if request.duration.is_some() {
                return Err(format!("{name} has no duration of its own"));
            }
            request.duration = Some(of("duration", length)?);
        }
        if let Some(every) = every {
            let every = of("every", every)?;
            if request.duration.is_none_or(|length| length >= every) {
                return Err("a fault that repeats needs a duration below `every`".to_owned());
            }
            request.every = Some(every);
        }
        Ok(request)
    }

    /// One item of the annotation: `NAME[=VALUE][@AFTER][+DURATION][/EVERY]`.
    fn parse(item: &str) -> Result<Self, String> {
        let of =
            |text: &str| duration(text).map_err(|expected| format!("{item:?}: {text:?} is not {expected}"));
        let (rest, every) = split(item, '/');
        let (rest, length) = split(rest, '+');
        let (rest, after) = split(rest, '@');
        let (name, value) = match rest.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (rest, None),
        };
        let mut request = Self::named(name, value)?;
        if let Some(after) = after {
            request.after += of(after)?;
        }
        if let Some(length) = length {
            if request.duration.is_some() {
                return Err(format!("{item:?}: {name} has no duration of its own"));
            }
            request.duration = Some(of(length)?);
        }
        if let Some(every) = every {
            let every = of(every)?;
            if request.duration.is_none_or(|length| length >= every) {
                return Err(format!(
                    "{item:?}: a fault that repeats needs a duration below {}",
                    every.as_secs_f64()
                ));
            }
            request.every = Some(every);
        }
        Ok(request)
    }

    /// What the request of time `from` means at `now`.
    pub(crate) fn window(&self, from: Timestamp, now: Timestamp) -> Window {
        let first = later(from, self.after);
        if now < first {
            return Window { since: None, activations: 0, next: Some(first) };
        }
        let passed = between(first, now).as_nanos();
        let round = self.every.map_or(0, |every| passed / every.as_nanos().max(1));
        let round = u32::try_from(round).unwrap_or(u32::MAX);
        let begin = self.every.map_or(first, |every| later(first, every.saturating_mul(round)));
        let again = self.every.map(|every| later(begin, every));
        let activations = u64::from(round) + 1;
        match self.duration.map(|length| later(begin, length)) {
            None => Window { since: Some(begin), activations, next: None },
            Some(end) if now < end => Window { since: Some(begin), activations, next: Some(end) },
            Some(_) => Window { since: None, activations, next: again },
        }
    }
}

/// A value of a fault that needs one.
fn example(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Flap => "60s,20s: how long it is there, and how long it is not",
        FaultKind::Xid => "79, or 79,gpu-3",
        _ => "gpu-3",
    }
}

/// The text before the last separator, and what follows it.
fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.rsplit_once(separator) {
        Some((before, after)) => (before.trim(), Some(after.trim())),
        None => (text.trim(), None),
    }
}

/// The faults of an annotation, whose items are separated by `;`.
///
/// # Errors
/// The first item that is wrong, or that there are too many.
pub(crate) fn parse(list: &str) -> Result<Vec<FaultRequest>, String> {
    let items: Vec<_> = list.split(';').map(str::trim).filter(|item| !item.is_empty()).collect();
    if items.len() > FAULTS_PER_NODE {
        return Err(format!("{} faults; a node has at most {FAULTS_PER_NODE}", items.len()));
    }
    items.into_iter().map(FaultRequest::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_values_times_and_intervals() {
        let seconds = Duration::from_secs;
        let parsed =
            parse("disk-pressure=2@10m+5m; partition@3+2m/1h; reboot; not-ready=PLEG is not healthy")
                .unwrap();
        let plain = |kind, value| FaultRequest::at_once(kind, value);
        let expected = [
            FaultRequest {
                after: seconds(600),
                duration: Some(seconds(300)),
                ..plain(FaultKind::DiskPressure, FaultValue::Number(2))
            },
            FaultRequest {
                after: seconds(3),
                duration: Some(seconds(120)),
                every: Some(seconds(3600)),
                ..plain(FaultKind::Partition, FaultValue::None)
            },
            FaultRequest {
                duration: Some(seconds(30) + SHUTDOWN),
                ..plain(FaultKind::Reboot, FaultValue::Duration(seconds(30)))
            },
            plain(FaultKind::NotReady, FaultValue::Text("PLEG is not healthy".to_owned())),
        ];
        assert_eq!(parsed, expected);
        for (wrong, text) in [
            (
                "slow=3@5m",
                "fault \"slow\" is not simulated: the times of a node's pods come from annotations alone; give the pods longer ones",
            ),
            ("xid=gpu-3", "fault \"xid\": value \"gpu-3\" is not 79, or 79,gpu-3"),
            ("device-unhealthy", "fault \"device-unhealthy\" needs a value, such as gpu-3"),
            (
                "flap=1m",
                "fault \"flap\": value \"1m\" is not 60s,20s: how long it is there, and how long it is not",
            ),
            ("flap=60s,20s+1m", "\"flap=60s,20s+1m\": flap has no duration of its own"),
            ("crash=1", "fault \"crash\" has no value"),
            ("memory-pressure=0", "fault \"memory-pressure\": value \"0\" is not a whole number above zero"),
            ("crash/1h", "\"crash/1h\": a fault that repeats needs a duration below 3600"),
            ("reboot+1m", "\"reboot+1m\": reboot has no duration of its own"),
        ] {
            assert_eq!(parse(wrong).unwrap_err(), text);
        }
        assert!(parse("crash@soon").unwrap_err().starts_with("\"crash@soon\": \"soon\" is not a delay"));
        assert!(parse(&"crash;".repeat(17)).unwrap_err().contains("at most 16"));
        assert_eq!(parse(" ; "), Ok(Vec::new()));
    }

    #[test]
    fn a_window_opens_after_its_delay_and_again_after_each_interval() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let windows = |text: &str, seconds: &[i64]| -> Vec<(Option<i64>, u64, Option<i64>)> {
            let request = parse(text).unwrap().remove(0);
            let window = |second: &i64| request.window(at(100), at(*second));
            let plain = |time: Option<Timestamp>| time.map(Timestamp::as_second);
            seconds.iter().map(window).map(|w| (plain(w.since), w.activations, plain(w.next))).collect()
        };
        let once = windows("crash@10+5", &[100, 110, 114, 115, 900]);
        let expected = [
            (None, 0, Some(110)),
            (Some(110), 1, Some(115)),
            (Some(110), 1, Some(115)),
            (None, 1, None),
            (None, 1, None),
        ];
        assert_eq!(once, expected);
        let again = windows("crash@10+5/60", &[109, 112, 115, 170, 175, 231]);
        let expected = [
            (None, 0, Some(110)),
            (Some(110), 1, Some(115)),
            (None, 1, Some(170)),
            (Some(170), 2, Some(175)),
            (None, 2, Some(230)),
            (Some(230), 3, Some(235)),
        ];
        assert_eq!(again, expected);
        assert_eq!(windows("freeze", &[100, 5000]), [(Some(100), 1, None); 2]);
        let flaps = windows("flap=60s,20s@10", &[169, 170, 190, 250]);
        let expected = [
            (None, 0, Some(170)),
            (Some(170), 1, Some(190)),
            (None, 1, Some(250)),
            (Some(250), 2, Some(270)),
        ];
        assert_eq!(flaps, expected);
    }
}

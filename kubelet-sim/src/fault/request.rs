//! [`FaultRequest`]: a fault with its times, as the annotation `kubelet-sim.kstore.io/fault` of a Node and the spec of a NodeFault have
//! them. Pure.

use super::list::items;
use super::table::{FaultKind, ValueForm, find};
use crate::behavior::{PullError, duration, pull_error};
use crate::limits::{DRIFT_MAX, FAULTS_PER_NODE, SHUTDOWN, SLOWEST};
use jiff::{SignedDuration, Timestamp};
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
    /// How much a clock is ahead.
    Offset(SignedDuration),
    /// How many millionths a clock is too fast.
    Millionths(i32),
    /// How pulls fail.
    Pull(PullError),
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
    /// By how much each beginning may be later than these times say.
    pub(crate) jitter: Duration,
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
        Self { kind, value, after: Duration::ZERO, duration: None, every: None, jitter: Duration::ZERO }
    }

    /// A fault by its name and value.
    ///
    /// # Errors
    /// The name is unknown, or the value has another form.
    pub(crate) fn named(name: &str, value: Option<&str>) -> Result<Self, String> {
        let row = find(name)?;
        let kind = row.kind;
        let wrong = |expected: &str| {
            format!("fault {name:?}: value {:?} is not {expected}", value.unwrap_or_default())
        };
        let value = match (row.value, value) {
            (ValueForm::None, None) | (ValueForm::Text | ValueForm::Number, None) => FaultValue::None,
            (ValueForm::None, Some(_)) => return Err(format!("fault {name:?} has no value")),
            (ValueForm::Duration(seconds), None) => FaultValue::Duration(Duration::from_secs(seconds)),
            (ValueForm::PullError, None) => FaultValue::Pull(PullError::Unavailable),
            (_, None) => {
                return Err(format!("fault {name:?} needs a value, such as {}", example(kind)));
            }
            (form, Some("")) if form.is_required() => {
                return Err(format!("fault {name:?} needs a value, such as {}", example(kind)));
            }
            (ValueForm::Durations, Some(text)) => return Self::flap(kind, text).map_err(|what| wrong(&what)),
            (form, Some(text)) => form.read(text, example(kind)).map_err(wrong)?,
        };
        let mut request = Self::at_once(kind, value);
        match (kind, &request.value) {
            // The value of a reboot is how long the machine is off.
            (FaultKind::Reboot, FaultValue::Duration(time)) => request.duration = Some(*time + SHUTDOWN),
            // Its device plugins need as long again to register.
            (FaultKind::KubeletRestart, FaultValue::Duration(time)) => {
                request.duration = Some(time.saturating_mul(2));
            }
            (FaultKind::Terminate, _) => request.duration = Some(Duration::ZERO),
            _ => {}
        }
        Ok(request)
    }

    /// A fault that comes and goes: how long the node is there, and how long it is not.
    fn flap(kind: FaultKind, text: &str) -> Result<Self, String> {
        let (up, down) = text.split_once(',').ok_or_else(|| example(kind).to_owned())?;
        let (up, down) = (duration(up.trim())?, duration(down.trim())?);
        if up.is_zero() || down.is_zero() {
            return Err("two durations above zero".to_owned());
        }
        Ok(Self {
            after: up,
            duration: Some(down),
            every: Some(up + down),
            ..Self::at_once(kind, FaultValue::None)
        })
    }

    /// How long the fault is said to hold.
    pub(crate) fn shown_duration(&self) -> Option<Duration> {
        match (self.kind, &self.value) {
            (FaultKind::KubeletRestart, FaultValue::Duration(time)) => Some(*time),
            _ => self.duration,
        }
    }

    /// Whether the effect of a fault that has ended stays: a machine that is gone does not come back.
    pub(crate) fn lasts_for_good(&self) -> bool {
        self.kind == FaultKind::Terminate
    }

    /// Whether it matters when the fault was asked for: it begins later, ends, or does something else after a while.
    pub(crate) fn has_times(&self) -> bool {
        let changes = matches!(
            self.kind,
            FaultKind::Reclaim | FaultKind::DriverAway | FaultKind::ClockDrift | FaultKind::RuntimeDown
        );
        changes || !self.after.is_zero() || self.duration.is_some() || self.every.is_some()
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
        jitter: Option<&str>,
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
        if let Some(jitter) = jitter {
            let jitter = of("jitter", jitter)?;
            // Else a beginning could come before the end of the one before it. `flap` has an interval of its own.
            let longest = request.duration.unwrap_or_default().saturating_add(jitter);
            if request.every.is_some_and(|every| longest >= every) {
                return Err(
                    "a fault that repeats needs a duration and jitter whose sum is below its interval"
                        .to_owned(),
                );
            }
            request.jitter = jitter;
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

    /// What the request of time `from` means at `now` if nothing begins later than its times say.
    pub(crate) fn window(&self, from: Timestamp, now: Timestamp) -> Window {
        self.shifted_window(from, now, |_| Duration::ZERO)
    }

    /// What the request of time `from` means at `now` if beginning number *n*, from 1, is later by `shift(n)`, which is `jitter` at most.
    pub(crate) fn shifted_window(
        &self,
        from: Timestamp,
        now: Timestamp,
        shift: impl Fn(u64) -> Duration,
    ) -> Window {
        let first = later(from, self.after);
        // No beginning falls behind the time of the next one: duration and jitter together are shorter than the interval.
        let passed = if now < first { 0 } else { between(first, now).as_nanos() };
        let round = self.every.map_or(0, |every| passed / every.as_nanos().max(1));
        let round = u32::try_from(round).unwrap_or(u32::MAX);
        let number = u64::from(round) + 1;
        let time = self.every.map_or(first, |every| later(first, every.saturating_mul(round)));
        let begin = later(time, shift(number));
        if now < begin {
            return Window { since: None, activations: number - 1, next: Some(begin) };
        }
        let again = self.every.map(|every| later(later(time, every), shift(number + 1)));
        match self.duration.map(|length| later(begin, length)) {
            None => Window { since: Some(begin), activations: number, next: None },
            Some(end) if now < end => Window { since: Some(begin), activations: number, next: Some(end) },
            Some(_) => Window { since: None, activations: number, next: again },
        }
    }
}

impl ValueForm {
    /// Whether a fault of this form needs a value that is not empty.
    fn is_required(self) -> bool {
        match self {
            Self::None | Self::Text | Self::Duration(_) | Self::Number | Self::PullError => false,
            Self::Durations | Self::Name | Self::Code => true,
            Self::Factor | Self::Offset | Self::Millionths | Self::Length => true,
        }
    }

    /// The value that a text stands for; the error is what is expected instead.
    fn read(self, text: &str, example: &'static str) -> Result<FaultValue, &'static str> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        Ok(match self {
            Self::None | Self::Text | Self::Name | Self::Durations => FaultValue::Text(text.to_owned()),
            Self::Code => {
                let (code, device) = match text.split_once(',') {
                    Some((code, device)) => (code, Some(device.trim().to_owned())),
                    None => (text, None),
                };
                FaultValue::Code(code.trim().parse().map_err(|_| example)?, device)
            }
            Self::Duration(_) | Self::Length => FaultValue::Duration(duration(text)?),
            Self::Number => {
                let number = text.parse().ok().filter(|number| *number > 0);
                FaultValue::Number(number.ok_or("a whole number above zero")?)
            }
            Self::Factor => {
                let number = text.parse().ok().filter(|number| (2..=SLOWEST).contains(number));
                FaultValue::Number(number.ok_or("a whole number from 2 to 1000")?)
            }
            Self::Offset => {
                let length = SignedDuration::try_from(duration(unsigned)?).map_err(|_| example)?;
                FaultValue::Offset(if unsigned == text { length } else { -length })
            }
            Self::Millionths => {
                let number = text.parse().ok().filter(|number| (-DRIFT_MAX..=DRIFT_MAX).contains(number));
                FaultValue::Millionths(number.ok_or("a whole number of millionths from -100000 to 100000")?)
            }
            Self::PullError => FaultValue::Pull(pull_error(text)?),
        })
    }
}

/// A value of a fault that needs one.
fn example(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Slow | FaultKind::PullSlow => "3",
        FaultKind::ClockSkew => "5m, or -5m",
        FaultKind::ClockDrift => "200, or -200",
        FaultKind::MountSlow => "90s",
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
    let items: Vec<_> = items(list).collect();
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
        assert_eq!(parsed.iter().map(FaultRequest::has_times).collect::<Vec<_>>(), [true, true, true, false]);
        let values = parse(
            "slow=3; clock-skew=-5m; clock-drift=-200; pull-fail; pull-fail=rate-limit; mount-slow=90s",
        );
        let values: Vec<_> = values.unwrap().into_iter().map(|request| request.value).collect();
        let expected = [
            FaultValue::Number(3),
            FaultValue::Offset(SignedDuration::from_mins(-5)),
            FaultValue::Millionths(-200),
            FaultValue::Pull(PullError::Unavailable),
            FaultValue::Pull(PullError::RateLimit),
            FaultValue::Duration(seconds(90)),
        ];
        assert_eq!(values, expected);
        for (wrong, text) in [
            ("slow=1", "fault \"slow\": value \"1\" is not a whole number from 2 to 1000"),
            ("slow", "fault \"slow\" needs a value, such as 3"),
            ("clock-skew=+5m", "fault \"clock-skew\" needs a value, such as 5m, or -5m"),
            (
                "clock-drift=1s",
                "fault \"clock-drift\": value \"1s\" is not a whole number of millionths from -100000 to 100000",
            ),
            (
                "pull-fail=gone",
                "fault \"pull-fail\": value \"gone\" is not not-found, unauthorized, rate-limit or unavailable",
            ),
            ("mount-slow", "fault \"mount-slow\" needs a value, such as 90s"),
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

    #[test]
    fn each_beginning_with_jitter_is_later_by_its_own_shift_and_lasts_as_long() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let request = FaultRequest::of_object("crash", None, Some("5s"), Some("60s"), Some("50s")).unwrap();
        let shift = |number: u64| Duration::from_secs(number * 17 % 50);
        // In each second the same as a list of all beginnings says.
        let begins: Vec<i64> = (0_u32..9)
            .map(|round| {
                let shift = i64::try_from(shift(u64::from(round) + 1).as_secs()).unwrap();
                100 + i64::from(round) * 60 + shift
            })
            .collect();
        assert!(begins.windows(2).any(|pair| pair[1] - pair[0] != 60), "{begins:?}");
        for second in 90..500 {
            let window = request.shifted_window(at(100), at(second), shift);
            let holding = begins.iter().find(|begin| (**begin..**begin + 5).contains(&second));
            let next = begins.iter().flat_map(|begin| [*begin, *begin + 5]).find(|time| *time > second);
            let expected = Window {
                since: holding.map(|begin| at(*begin)),
                activations: begins.iter().filter(|begin| **begin <= second).count() as u64,
                next: next.map(at),
            };
            assert_eq!(window, expected, "at {second} with {begins:?}");
        }
    }

    #[test]
    fn jitter_never_lets_beginnings_overlap() {
        let of = |name, value, every, jitter| {
            let length = (name == "crash").then_some("5s");
            FaultRequest::of_object(name, value, length, every, Some(jitter)).map(|request| request.jitter)
        };
        let sum =
            "a fault that repeats needs a duration and jitter whose sum is below its interval".to_owned();
        assert_eq!(of("crash", None, Some("60s"), "54s"), Ok(Duration::from_secs(54)));
        assert_eq!(of("crash", None, Some("60s"), "55s"), Err(sum.clone()));
        assert_eq!(of("crash", None, None, "10m"), Ok(Duration::from_secs(600)));
        assert_eq!(of("flap", Some("60s,20s"), None, "59s"), Ok(Duration::from_secs(59)));
        assert_eq!(of("flap", Some("60s,20s"), None, "60s"), Err(sum));
        assert!(of("crash", None, None, "soon").unwrap_err().starts_with("jitter \"soon\" is not a delay"));
    }
}

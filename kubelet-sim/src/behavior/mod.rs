//! Scripts of containers in a pod's annotations. Only parses; `runtime::sim` and `probe` carry the scripts
//! out. `table` and the page `ANNOTATIONS.md`, which is generated from it, list the annotations.

mod placement;
mod table;

use crate::limits::{LONGEST_DELAY, NEAREST_CANDIDATES, PROBLEMS_REPORTED};
use kstore_api::quantity::Quantity;
use kstore_container_sim::{LogScript, ScriptedAnswer};
use kstore_go_duration::parse_non_negative;
use kstore_nondet::Rng;
pub use placement::problems;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
pub use table::{ANNOTATIONS, Annotation, find};

/// The prefix of every annotation that this crate reads.
pub const ANNOTATION_PREFIX: &str = "kubelet-sim.kstore.io/";

/// A span of time, fixed or drawn at random for each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always this long.
    Fixed(Duration),
    /// Uniformly distributed between the first and the second.
    Uniform(Duration, Duration),
}

impl Delay {
    /// Draws a duration.
    pub fn draw(&self, rng: &Rng) -> Duration {
        match *self {
            Self::Fixed(duration) => duration,
            Self::Uniform(from, to) => from.saturating_add(to.saturating_sub(from).mul_f64(rng.unit())),
        }
    }
}

/// The time of an event after a container's start, if it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After this delay.
    After(Delay),
    /// Never.
    Never,
}

/// Why a scripted pull fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullError {
    /// The registry has no such image.
    #[default]
    NotFound,
    /// The registry refuses these credentials.
    Unauthorized,
    /// The registry limits the rate of pulls.
    RateLimit,
    /// The registry does not answer.
    Unavailable,
}

/// The script for pulls of a container's image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullScript {
    /// Duration of one pull.
    pub delay: Option<Delay>,
    /// Number of pulls that fail before one succeeds.
    pub failures: u32,
    /// The error of failed pulls.
    pub error: PullError,
}

/// The script for a container's reaction to SIGTERM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopScript {
    /// Time until the container ends.
    pub after: Option<Delay>,
    /// Whether the container ignores SIGTERM.
    pub ignore: bool,
    /// The exit code after SIGTERM.
    pub code: i32,
}

/// The user in an image's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageUser {
    /// A numeric user id.
    Id(i64),
    /// A user name, whose id is unknown.
    Name(String),
}

/// The script of one container. `Default` is a container that runs for ever and is ready at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Duration of a run.
    pub run: Option<Delay>,
    /// Exit code of a run.
    pub exit_code: Option<i32>,
    /// Number of runs that end; `None` is all.
    pub crash_times: Option<u32>,
    /// Time after which a run is killed for lack of memory.
    pub oom_after: Option<Delay>,
    /// The script for image pulls.
    pub pull: PullScript,
    /// The user in the image's configuration.
    pub image_user: Option<ImageUser>,
    /// Duration of creating the container.
    pub create: Option<Delay>,
    /// Duration of starting the container.
    pub start: Option<Delay>,
    /// When a startup probe passes.
    pub started: Option<When>,
    /// When a readiness probe passes.
    pub ready: Option<When>,
    /// Start and duration of a period in which the readiness probe fails again.
    pub unready: Option<(Delay, Delay)>,
    /// When the liveness probe begins to fail.
    pub unhealthy_after: Option<Delay>,
    /// The reaction to SIGTERM.
    pub stop: StopScript,
    /// Duration of making the pod's network.
    pub sandbox: Option<Delay>,
    /// The script for the container's log.
    pub log: LogScript,
    /// Answers to commands, by the command's words joined with blanks.
    pub exec: BTreeMap<String, ScriptedAnswer>,
    /// The response of the container's ports to HTTP requests.
    pub http: Option<String>,
    /// Processor usage while running, in billionths of a processor.
    pub cpu: Option<u64>,
    /// Memory usage while running, in bytes.
    pub memory: Option<u64>,
}

/// An invalid annotation, which has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAnnotation {
    /// The value cannot be parsed.
    #[error("annotation {ANNOTATION_PREFIX}{key}: {value:?} is not {expected}")]
    Value {
        /// The key after the prefix.
        key: String,
        /// The value.
        value: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The name is unknown.
    #[error("annotation {ANNOTATION_PREFIX}{key}: unknown name {name:?}, did you mean {nearest:?}?")]
    Name {
        /// The key after the prefix.
        key: String,
        /// The name in it.
        name: String,
        /// The most similar known name.
        nearest: &'static str,
    },
    /// The pod has no container of this name.
    #[error(
        "annotation {ANNOTATION_PREFIX}{key}: the pod has no container {container:?}, did you mean {nearest:?}?"
    )]
    Container {
        /// The key after the prefix.
        key: String,
        /// The container in it.
        container: String,
        /// The container with the most similar name.
        nearest: String,
    },
    /// An annotation for the whole pod names a container.
    #[error("annotation {ANNOTATION_PREFIX}{key}: it is about the whole pod, did you mean {name:?}?")]
    WholePod {
        /// The key after the prefix.
        key: String,
        /// The name in it.
        name: &'static str,
    },
}

/// The annotations of this crate, without their prefix.
fn ours(annotations: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> + Clone {
    annotations
        .range(ANNOTATION_PREFIX.to_owned()..)
        .map_while(|(key, value)| Some((key.strip_prefix(ANNOTATION_PREFIX)?, value.as_str())))
}

/// The script for `container` in `annotations`; the empty name is the pod itself. Invalid annotations have no
/// effect; [`check`] reports them.
pub fn script(annotations: &BTreeMap<String, String>, container: &str) -> Script {
    let mut script = Script::default();
    let ours = ours(annotations);
    // General keys come first, so that the container's own keys override them.
    let general = ours.clone().filter(|(key, _)| !key.contains('.'));
    let own = ours.filter_map(|(key, value)| match key.rsplit_once('.') {
        Some((name, rest)) if name == container => Some((rest, value)),
        _ => None,
    });
    for (name, value) in general.chain(own) {
        // An invalid value has no effect.
        let _ = script.set(name, value);
    }
    script
}

/// The errors in the annotations of a pod with these containers, at most `PROBLEMS_REPORTED`.
pub fn check(annotations: &BTreeMap<String, String>, containers: &[&str]) -> Vec<BadAnnotation> {
    let known: BTreeSet<&str> = containers.iter().copied().collect();
    let bad = ours(annotations).filter_map(|(key, value)| wrong(key, value, &known, containers));
    bad.take(PROBLEMS_REPORTED).collect()
}

fn wrong(key: &str, value: &str, known: &BTreeSet<&str>, containers: &[&str]) -> Option<BadAnnotation> {
    let (container, name) = match key.rsplit_once('.') {
        Some((container, name)) => (Some(container), name),
        None => (None, key),
    };
    let owned = || key.to_owned();
    if let Some(container) = container.filter(|container| !known.contains(container)) {
        let likely = containers.iter().copied().take(NEAREST_CANDIDATES);
        let nearest = table::nearest(container, likely).unwrap_or_default().to_owned();
        return Some(BadAnnotation::Container { key: owned(), container: container.to_owned(), nearest });
    }
    let Some(annotation) = find(name) else {
        let nearest = table::nearest(name, ANNOTATIONS.iter().map(|one| one.name)).unwrap_or_default();
        return Some(BadAnnotation::Name { key: owned(), name: name.to_owned(), nearest });
    };
    if annotation.whole_pod && container.is_some() {
        return Some(BadAnnotation::WholePod { key: owned(), name: annotation.name });
    }
    let expected = Script::default().set(name, value).err()?;
    Some(BadAnnotation::Value { key: owned(), value: value.to_owned(), expected })
}

impl Script {
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "run-seconds" => self.run = Some(delay(value)?),
            "exit-code" => self.exit_code = Some(code(value)?),
            "crash-times" => self.crash_times = Some(value.trim().parse().map_err(|_| "a number")?),
            "oom-after" => self.oom_after = Some(delay(value)?),
            "image-pull" => self.pull = pull(value)?,
            "image-user" => self.image_user = Some(user(value)?),
            "create-seconds" => self.create = Some(delay(value)?),
            "start-seconds" => self.start = Some(delay(value)?),
            "started-after" => self.started = Some(when(value)?),
            "ready-after" => self.ready = Some(when(value)?),
            "unready" => {
                let (at, length) = value.split_once(',').ok_or("two delays with a comma")?;
                self.unready = Some((delay(at)?, delay(length)?));
            }
            "unhealthy-after" => self.unhealthy_after = Some(delay(value)?),
            "stop" => self.stop = stop(value)?,
            "sandbox-seconds" => self.sandbox = Some(delay(value)?),
            "exec" => self.exec.extend(answers(value).ok_or(AN_ANSWER)?),
            "http" => self.http = Some(value.to_owned()),
            "cpu" => self.cpu = Some(processors(value).ok_or(PROCESSORS)?),
            "memory" => self.memory = Some(memory(value).ok_or("bytes, such as 64Mi or 1G")?),
            "logs" => self.log.set_lines(false, value),
            "logs-stderr" => self.log.set_lines(true, value),
            "log-line" => self.log.line = Some(value.to_owned()),
            "log-every" => {
                let every = duration(value).ok().filter(|every| *every >= Duration::from_millis(1));
                self.log.every = Some(every.ok_or("a delay of 1ms or more, not drawn")?);
            }
            _ => return Err("the value of a known annotation"),
        }
        Ok(())
    }
}

const A_DELAY: &str = "a delay (2, 0.5, 250ms, 5s, 1m30s, 1h or uniform(a,b)) of at most ten years";

/// Parses a span of time, fixed or drawn: `5s`, `1m30s`, `0.5`, `uniform(30,60)`.
///
/// # Errors
/// What is expected instead.
pub fn delay(text: &str) -> Result<Delay, &'static str> {
    let text = text.trim();
    match text.strip_prefix("uniform(").and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => {
            let (from, to) = inner.split_once(',').ok_or(A_DELAY)?;
            let (from, to) = (duration(from)?, duration(to)?);
            if from > to { Err(A_DELAY) } else { Ok(Delay::Uniform(from, to)) }
        }
        None => duration(text).map(Delay::Fixed),
    }
}

/// Parses a span of time that is not drawn: a number of seconds, or a duration of Go.
///
/// # Errors
/// What is expected instead.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    let text = text.trim();
    let span = match text.parse() {
        Ok(seconds) => span(seconds),
        Err(_) => parse_non_negative(text).ok().filter(|span| *span <= LONGEST_DELAY),
    };
    span.ok_or(A_DELAY)
}

/// A finite, non-negative number of seconds up to [`LONGEST_DELAY`].
fn span(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|span| *span <= LONGEST_DELAY)
}

fn when(text: &str) -> Result<When, &'static str> {
    if text.trim() == "never" { Ok(When::Never) } else { delay(text).map(When::After) }
}

fn user(text: &str) -> Result<ImageUser, &'static str> {
    match text.trim() {
        "" => Err("a user's number or name"),
        text => Ok(text.parse().map_or_else(|_| ImageUser::Name(text.to_owned()), ImageUser::Id)),
    }
}

fn code(text: &str) -> Result<i32, &'static str> {
    text.trim().parse::<u8>().map(i32::from).map_err(|_| "an exit code (0 to 255)")
}

/// A kind of failed pulls.
///
/// # Errors
/// What is expected instead.
pub(crate) fn pull_error(text: &str) -> Result<PullError, &'static str> {
    Ok(match text {
        "not-found" => PullError::NotFound,
        "unauthorized" => PullError::Unauthorized,
        "rate-limit" => PullError::RateLimit,
        "unavailable" => PullError::Unavailable,
        _ => return Err("not-found, unauthorized, rate-limit or unavailable"),
    })
}

fn pull(text: &str) -> Result<PullScript, &'static str> {
    let mut script = PullScript::default();
    for part in split(text) {
        match part.split_once('=') {
            None if part == "fail" => script.failures = u32::MAX,
            None => script.delay = Some(delay(part)?),
            Some(("fail", times)) => script.failures = times.parse().map_err(|_| "a number of failures")?,
            Some(("error", error)) => {
                script.error = pull_error(error)?;
                if script.failures == 0 {
                    script.failures = u32::MAX;
                }
            }
            Some(_) => return Err("a delay, fail, fail=N or error=KIND"),
        }
    }
    Ok(script)
}

fn stop(text: &str) -> Result<StopScript, &'static str> {
    let mut script = StopScript::default();
    for part in split(text) {
        match part.split_once('=') {
            None if part == "ignore" => script.ignore = true,
            None => script.after = Some(delay(part)?),
            Some(("code", text)) => script.code = code(text)?,
            Some(_) => return Err("a delay, ignore or code=N"),
        }
    }
    Ok(script)
}

const AN_ANSWER: &str = "a JSON object of texts or of {stdout, stderr, code, after}, where `after` is at most ten years of seconds";

fn answers(text: &str) -> Option<BTreeMap<String, ScriptedAnswer>> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Read {
        Text(String),
        Full(Full),
    }
    #[derive(serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    #[derive(Default)]
    struct Full {
        after: f64,
        stdout: String,
        stderr: String,
        code: u8,
    }
    let read: BTreeMap<String, Read> = serde_json::from_str(text).ok()?;
    let answer = |read| match read {
        Read::Text(stdout) => Some(ScriptedAnswer { stdout, ..ScriptedAnswer::default() }),
        Read::Full(Full { after, stdout, stderr, code }) => {
            let after = span(after)?;
            Some(ScriptedAnswer { after: Some(after).filter(|after| !after.is_zero()), stdout, stderr, code })
        }
    };
    read.into_iter().map(|(words, read)| Some((words, answer(read)?))).collect()
}

const PROCESSORS: &str = "a number of processors, such as 250m or 1.5";

/// Parses an amount of processors into billionths. Fractions of a thousandth are rounded up, as Kubernetes
/// does.
fn processors(text: &str) -> Option<u64> {
    let milli = Quantity::parse(text.trim()).ok()?.milli();
    u64::try_from(milli).ok()?.checked_mul(1_000_000)
}

fn memory(text: &str) -> Option<u64> {
    u64::try_from(Quantity::parse(text.trim()).ok()?.units()).ok()
}

/// Splits at commas, except for the comma inside `uniform(a,b)`.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], container: &str) -> (Script, Vec<String>) {
        let map = pairs.iter().map(|(k, v)| (format!("{ANNOTATION_PREFIX}{k}"), (*v).to_owned())).collect();
        let bad = check(&map, &[container]);
        (script(&map, container), bad.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_key_of_the_container_overrides_the_general_one() {
        let pairs = [("run-seconds", "5"), ("web.run-seconds", "250ms"), ("other.exit-code", "3")];
        let (script, bad) = read(&pairs, "web");
        assert_eq!(script.run, Some(Delay::Fixed(Duration::from_millis(250))));
        assert_eq!(script.exit_code, None);
        let unknown = "annotation kubelet-sim.kstore.io/other.exit-code: the pod has no container \"other\", did you mean \"web\"?";
        assert_eq!(bad, [unknown]);
    }

    #[test]
    fn annotations_script_the_log_of_a_container() {
        let pairs =
            [("logs-stderr", "bad"), ("logs", "one\ntwo"), ("log-line", "tick {n}"), ("log-every", "10s")];
        let (script, bad) = read(&pairs, "web");
        let lines = [(false, "one"), (false, "two"), (true, "bad")];
        let expected = LogScript {
            lines: Some(lines.map(|(stderr, line)| (stderr, line.to_owned())).into()),
            line: Some("tick {n}".to_owned()),
            every: Some(Duration::from_secs(10)),
            note: None,
        };
        assert_eq!((script.log, bad), (expected, Vec::new()));
    }

    #[test]
    fn pulls_and_stops_are_scripted_in_parts() {
        let pairs = [("image-pull", "uniform(1s,2s),fail=2,error=rate-limit"), ("stop", "5s,code=143")];
        let (script, _) = read(&pairs, "c");
        let seconds = Duration::from_secs;
        assert_eq!(script.pull.delay, Some(Delay::Uniform(seconds(1), seconds(2))));
        assert_eq!((script.pull.failures, script.pull.error), (2, PullError::RateLimit));
        assert_eq!((script.stop.after, script.stop.code), (Some(Delay::Fixed(seconds(5))), 143));
        assert_eq!(read(&[("image-pull", "error=unauthorized")], "c").0.pull.failures, u32::MAX);
    }

    #[test]
    fn usage_is_a_quantity_of_processors_and_of_bytes() {
        let pairs = [("cpu", "250m"), ("memory", "64Mi"), ("web.cpu", " 1.5 "), ("web.memory", "1500m")];
        let (general, _) = read(&pairs, "other");
        assert_eq!((general.cpu, general.memory), (Some(250_000_000), Some(64 << 20)));
        let (web, bad) = read(&pairs, "web");
        assert_eq!((web.cpu, web.memory, bad.len()), (Some(1_500_000_000), Some(2), 0));
        assert_eq!(read(&[("cpu", "1n")], "c").0.cpu, Some(1_000_000));
    }

    #[test]
    fn invalid_values_are_reported_and_ignored() {
        for (key, value) in [
            ("run-seconds", "soon"),
            ("run-seconds", "-1"),
            ("run-seconds", "1e400"),
            ("create-seconds", "1e19"),
            ("start-seconds", "18446744073709551615"),
            ("sandbox-seconds", "87601h"),
            ("unready", "1,1e19"),
            ("image-pull", "uniform(0,1e19)"),
            ("stop", "1e19"),
            ("exec", "{\"date\": {\"after\": 1e19}}"),
            ("exit-code", "256"),
            ("image-pull", "fail=x"),
            ("ready-after", "uniform(2,1)"),
            ("unready", "5"),
            ("cpu", "-1"),
            ("cpu", "fast"),
            ("cpu", "1E"),
            ("memory", "-1Mi"),
            ("memory", "64MB"),
            ("no-such-name", "1"),
        ] {
            let (script, bad) = read(&[(key, value)], "c");
            assert_eq!(script, Script::default(), "{key}={value}");
            assert_eq!(bad.len(), 1, "{key}={value}");
            assert!(bad[0].contains(key), "{}", bad[0]);
        }
    }

    #[test]
    fn unknown_names_and_containers_are_reported_with_the_most_similar_one() {
        let reported = |key: &str| {
            let map = BTreeMap::from([(format!("{ANNOTATION_PREFIX}{key}"), "1".to_owned())]);
            check(&map, &["web", "sidecar"]).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let prefix = "annotation kubelet-sim.kstore.io/";
        assert_eq!(
            reported("run-secs"),
            format!("{prefix}run-secs: unknown name \"run-secs\", did you mean \"run-seconds\"?")
        );
        assert_eq!(
            reported("wbe.exit-code"),
            format!("{prefix}wbe.exit-code: the pod has no container \"wbe\", did you mean \"web\"?")
        );
        assert_eq!(
            reported("web.sandbox-seconds"),
            format!(
                "{prefix}web.sandbox-seconds: it is about the whole pod, did you mean \"sandbox-seconds\"?"
            )
        );
        assert_eq!(reported("sidecar.exit-code"), "");
    }

    #[test]
    fn only_the_first_of_many_unknown_containers_are_reported() {
        let containers: Vec<String> = (0..5_000).map(|n| format!("container-{n}")).collect();
        let containers: Vec<&str> = containers.iter().map(String::as_str).collect();
        let key = |n| format!("{ANNOTATION_PREFIX}no-such-container-{n}.exit-code");
        let map = (0..5_000).map(|n| (key(n), "1".to_owned())).collect();
        assert_eq!(check(&map, &containers).len(), PROBLEMS_REPORTED);
    }

    #[test]
    fn a_drawn_delay_stays_in_its_range() {
        let rng = Rng::seeded(1);
        let (from, to) = (Duration::from_secs(1), Duration::from_secs(2));
        for _ in 0..1000 {
            let drawn = Delay::Uniform(from, to).draw(&rng);
            assert!(from <= drawn && drawn <= to);
        }
    }
}

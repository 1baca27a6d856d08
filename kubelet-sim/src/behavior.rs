//! How a pod's annotations script its containers. Parsing only: what the script does is in `runtime::sim` and `probe`.
//!
//! Keys are `kubelet-sim.kstore.io/<name>` for every container of the pod, or `kubelet-sim.kstore.io/<container>.<name>`
//! for one of them, which wins. A delay is a number of seconds (`2`, `0.5`), a number with a unit (`250ms`, `5s`, `2m`,
//! `1h`) or `uniform(a,b)` of two of these.
//!
//! | name | value | effect |
//! |---|---|---|
//! | `run-seconds` | delay | each run ends after it |
//! | `exit-code` | 0–255 | the code with which a run ends; alone, the run ends at once |
//! | `crash-times` | number | only the first so many runs end; later ones go on for ever |
//! | `oom-after` | delay | the run is killed for want of memory: `OOMKilled`, 137 |
//! | `image-pull` | `5s,fail=2,error=not-found`, `fail`, `error=…` | pulls take so long; the first `fail` pulls fail (all, without a number). Errors: `not-found`, `unauthorized`, `rate-limit`, `unavailable` |
//! | `create-seconds`, `start-seconds` | delay | creating and starting take so long |
//! | `started-after` | delay, `never` | when a startup probe would pass |
//! | `ready-after` | delay, `never` | when a readiness probe would pass; holds without a probe too |
//! | `unready` | `60s,20s` | not ready from 60 s after the start, for 20 s |
//! | `unhealthy-after` | delay | when a liveness probe begins to fail |
//! | `stop` | `5s`, `ignore`, `5s,code=143` | how SIGTERM is answered; `ignore` waits for SIGKILL and ends with 137 |
//! | `sandbox-seconds` | delay | making the pod's network takes so long (whole pod only) |
//! | `logs` | text | each run begins by logging its lines, instead of saying that it is simulated |
//! | `logs-stderr` | text | the same on the other stream, after `logs` |
//! | `log-line` | text | a line that is logged again and again; `{n}` counts from 1 |
//! | `exec` | JSON object | answers to commands, by their words joined by blanks: `{"redis-cli ping": "PONG\n"}`, or `{"stdout": …, "stderr": …, "code": 1, "after": 2}` |
//! | `http` | text | what the container's ports answer to HTTP; HTML if it begins with `<` |
//! | `log-every` | fixed delay, not under 1ms | how often; alone, the line is `{n}` |

use kstore_nondet::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// The prefix of every annotation that this crate reads.
pub const ANNOTATION_PREFIX: &str = "kubelet-sim.kstore.io/";

/// A span of time, fixed or drawn anew for each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always this long.
    Fixed(Duration),
    /// Evenly between the first and the second.
    Uniform(Duration, Duration),
}

impl Delay {
    /// One draw.
    pub fn draw(&self, rng: &Rng) -> Duration {
        match *self {
            Self::Fixed(duration) => duration,
            Self::Uniform(from, to) => from + to.saturating_sub(from).mul_f64(rng.unit()),
        }
    }
}

/// When something happens after a container's start, if ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After this long.
    After(Delay),
    /// Not at all.
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
    /// The registry asks for patience.
    RateLimit,
    /// The registry does not answer.
    Unavailable,
}

/// How pulls of a container's image go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullScript {
    /// How long one pull takes.
    pub delay: Option<Delay>,
    /// How many pulls fail before one succeeds.
    pub failures: u32,
    /// How they fail.
    pub error: PullError,
}

/// How a container answers SIGTERM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopScript {
    /// How long it takes to end.
    pub after: Option<Delay>,
    /// It does not end by itself.
    pub ignore: bool,
    /// The code with which it ends.
    pub code: i32,
}

/// The script of one container. `Default` is a container that runs for ever and is ready at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// How long a run lasts.
    pub run: Option<Delay>,
    /// The code with which a run ends.
    pub exit_code: Option<i32>,
    /// How many runs end at all; `None` is all.
    pub crash_times: Option<u32>,
    /// When a run is killed for want of memory.
    pub oom_after: Option<Delay>,
    /// How pulls go.
    pub pull: PullScript,
    /// How long creating takes.
    pub create: Option<Delay>,
    /// How long starting takes.
    pub start: Option<Delay>,
    /// When a startup probe passes.
    pub started: Option<When>,
    /// When a readiness probe passes.
    pub ready: Option<When>,
    /// From when and how long a readiness probe fails again.
    pub unready: Option<(Delay, Delay)>,
    /// From when a liveness probe fails.
    pub unhealthy_after: Option<Delay>,
    /// How SIGTERM is answered.
    pub stop: StopScript,
    /// How long the pod's network takes.
    pub sandbox: Option<Delay>,
    /// What it logs.
    pub log: LogScript,
    /// Answers to commands, by their words joined by blanks.
    pub exec: BTreeMap<String, ExecAnswer>,
    /// What its ports answer to HTTP.
    pub http: Option<String>,
}

/// The answer to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecAnswer {
    /// How long the command takes.
    pub after: Option<Duration>,
    /// What it prints.
    pub stdout: String,
    /// What it complains.
    pub stderr: String,
    /// The code with which it ends.
    pub code: u8,
}

/// What a container logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogScript {
    /// The lines with which a run begins, and whether each goes to stderr. `None`: it says that it is simulated.
    pub lines: Option<Vec<(bool, String)>>,
    /// What is logged again and again.
    pub line: Option<String>,
    /// How often.
    pub every: Option<Duration>,
}

impl LogScript {
    fn add(&mut self, stderr: bool, text: &str) {
        let lines = text.lines().map(|line| (stderr, line.to_owned()));
        let all = self.lines.get_or_insert_default();
        // A key of the container takes the place of the general one; what goes to stderr comes last.
        all.retain(|(other, _)| *other != stderr);
        all.extend(lines);
        all.sort_by_key(|(stderr, _)| *stderr);
    }
}

/// An annotation that scripts nothing because its value does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {ANNOTATION_PREFIX}{key}: {value:?} is not {expected}")]
pub struct BadAnnotation {
    /// The key after the prefix.
    pub key: String,
    /// The value as it stands.
    pub value: String,
    /// What would have been understood.
    pub expected: &'static str,
}

/// The script of `container` (the empty name: of the pod itself) in `annotations`. What does not parse is left at its
/// default and returned beside it.
pub fn script(annotations: &BTreeMap<String, String>, container: &str) -> (Script, Vec<BadAnnotation>) {
    let mut script = Script::default();
    let mut bad = Vec::new();
    let ours = || {
        annotations
            .range(ANNOTATION_PREFIX.to_owned()..)
            .map_while(|(key, value)| Some((key.strip_prefix(ANNOTATION_PREFIX)?, value.as_str())))
    };
    // The general keys first, then those of this container, which overwrite them.
    let general = ours().filter(|(key, _)| !key.contains('.')).map(|(key, value)| (key, key, value));
    let own = ours().filter_map(|(key, value)| match key.rsplit_once('.') {
        Some((name, rest)) if name == container => Some((key, rest, value)),
        _ => None,
    });
    for (key, name, value) in general.chain(own) {
        if let Err(expected) = script.set(name, value) {
            bad.push(BadAnnotation { key: key.to_owned(), value: value.to_owned(), expected });
        }
    }
    (script, bad)
}

impl Script {
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "run-seconds" => self.run = Some(delay(value)?),
            "exit-code" => self.exit_code = Some(code(value)?),
            "crash-times" => self.crash_times = Some(value.trim().parse().map_err(|_| "a number")?),
            "oom-after" => self.oom_after = Some(delay(value)?),
            "image-pull" => self.pull = pull(value)?,
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
            "logs" => self.log.add(false, value),
            "logs-stderr" => self.log.add(true, value),
            "log-line" => self.log.line = Some(value.to_owned()),
            "log-every" => {
                let every = duration(value).ok().filter(|every| *every >= Duration::from_millis(1));
                self.log.every = Some(every.ok_or("a delay of 1ms or more, not drawn")?);
            }
            _ => return Err("of a name that is known"),
        }
        Ok(())
    }
}

const A_DELAY: &str = "a delay (2, 0.5, 250ms, 5s, 2m, 1h or uniform(a,b))";

fn delay(text: &str) -> Result<Delay, &'static str> {
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

fn duration(text: &str) -> Result<Duration, &'static str> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(A_DELAY),
    };
    let number: f64 = digits.parse().map_err(|_| A_DELAY)?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| A_DELAY)
}

fn when(text: &str) -> Result<When, &'static str> {
    if text.trim() == "never" { Ok(When::Never) } else { delay(text).map(When::After) }
}

fn code(text: &str) -> Result<i32, &'static str> {
    text.trim().parse::<u8>().map(i32::from).map_err(|_| "an exit code (0 to 255)")
}

fn pull(text: &str) -> Result<PullScript, &'static str> {
    let mut script = PullScript::default();
    for part in split(text) {
        match part.split_once('=') {
            None if part == "fail" => script.failures = u32::MAX,
            None => script.delay = Some(delay(part)?),
            Some(("fail", times)) => script.failures = times.parse().map_err(|_| "a number of failures")?,
            Some(("error", error)) => {
                script.error = match error {
                    "not-found" => PullError::NotFound,
                    "unauthorized" => PullError::Unauthorized,
                    "rate-limit" => PullError::RateLimit,
                    "unavailable" => PullError::Unavailable,
                    _ => return Err("not-found, unauthorized, rate-limit or unavailable"),
                };
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

const AN_ANSWER: &str = "a JSON object of texts or of {stdout, stderr, code, after}";

fn answers(text: &str) -> Option<BTreeMap<String, ExecAnswer>> {
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
        Read::Text(stdout) => Some(ExecAnswer { stdout, ..ExecAnswer::default() }),
        Read::Full(Full { after, stdout, stderr, code }) => {
            let after = Duration::try_from_secs_f64(after).ok()?;
            Some(ExecAnswer { after: Some(after).filter(|after| !after.is_zero()), stdout, stderr, code })
        }
    };
    read.into_iter().map(|(words, read)| Some((words, answer(read)?))).collect()
}

/// The parts between commas, except for the comma inside `uniform(a,b)`.
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
        let (script, bad) = script(&map, container);
        (script, bad.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_key_of_the_container_wins_over_the_general_one() {
        let pairs = [("run-seconds", "5"), ("web.run-seconds", "250ms"), ("other.exit-code", "3")];
        let (script, bad) = read(&pairs, "web");
        assert_eq!(script.run, Some(Delay::Fixed(Duration::from_millis(250))));
        assert_eq!((script.exit_code, bad.len()), (None, 0));
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
    fn what_does_not_parse_is_named_and_left_out() {
        for (key, value) in [
            ("run-seconds", "soon"),
            ("run-seconds", "-1"),
            ("exit-code", "256"),
            ("image-pull", "fail=x"),
            ("ready-after", "uniform(2,1)"),
            ("unready", "5"),
            ("no-such-name", "1"),
        ] {
            let (script, bad) = read(&[(key, value)], "c");
            assert_eq!(script, Script::default(), "{key}={value}");
            assert_eq!(bad.len(), 1, "{key}={value}");
            assert!(bad[0].contains(key) && bad[0].contains(value), "{}", bad[0]);
        }
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

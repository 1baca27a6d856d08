//! Logs against what a kubelet would show of the same lines.

use super::*;
use crate::behavior::LogScript;
use kstore_client::LogOptions;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn seconds(n: u64) -> Timestamp {
    later(START, Duration::from_secs(n))
}

fn log(pairs: &[(&str, &str)], ended: Option<(u64, i32)>) -> Log {
    let prefix = crate::behavior::ANNOTATION_PREFIX;
    let map = pairs.iter().map(|(key, value)| (format!("{prefix}{key}"), (*value).to_owned())).collect();
    let script = crate::behavior::script(&map, "web");
    assert_eq!(crate::behavior::check(&map, &["web"]), []);
    let ended = ended.map(|(at, code)| (seconds(at), code));
    Log::of(
        &script.log,
        "web",
        "nginx",
        &Run { id: "1".to_owned(), started_at: START, ended },
        Command::Absent,
    )
}

fn read(log: &Log, options: &LogOptions, now: u64) -> String {
    let mut reading = Reading::new(options, log, seconds(now));
    let mut all = String::new();
    loop {
        match reading.step(log, seconds(now)) {
            Step::Send(_, text) => all.push_str(&text),
            Step::Wait | Step::Enough => return all,
        }
    }
}

#[test]
fn a_container_without_a_script_says_that_it_is_simulated() {
    let text = read(&log(&[], None), &LogOptions::default(), 5);
    assert_eq!(text, "simulated container web started (image nginx)\n");
    let text = read(&log(&[], Some((90, 3))), &LogOptions::default(), 100);
    assert_eq!(
        text,
        "simulated container web started (image nginx)\n\
         simulated container web ended with exit code 3 after 1m30s\n"
    );
}

#[test]
fn the_log_of_a_command_is_what_it_printed_or_says_why_it_is_not_run() {
    let run = Run { id: "1".to_owned(), started_at: START, ended: Some((seconds(2), 3)) };
    let of = |command| Log::of(&LogScript::default(), "web", "app", &run, command);
    let mut printed = Printed::default();
    for (second, stderr, text) in [(1, false, "hi"), (2, true, "bad")] {
        printed.push(Line { at: seconds(second), stderr, text: text.to_owned() });
    }
    let log = of(Command::Ran(Arc::new(printed)));
    assert_eq!(read(&log, &LogOptions::default(), 5), "hi\nbad\n");
    let stderr = LogOptions { stream: "Stderr".to_owned(), timestamps: true, ..LogOptions::default() };
    assert_eq!(read(&log, &stderr, 5), "1970-01-01T00:00:02.000000000Z bad\n");
    let log = of(Command::NotRun("its command is not run: why".to_owned()));
    assert_eq!(
        read(&log, &LogOptions::default(), 5),
        "simulated container web started (image app); its command is not run: why\n\
         simulated container web ended with exit code 3 after 2s\n"
    );
}

#[test]
fn options_choose_lines_as_a_kubelet_does() {
    let all = || LogOptions::default();
    let pairs =
        [("logs", "one\ntwo"), ("logs-stderr", "bad"), ("log-line", "tick {n}"), ("log-every", "10s")];
    let log = log(&pairs, None);
    let cases = [
        (all(), "one\ntwo\nbad\ntick 1\ntick 2\ntick 3\n"),
        (LogOptions { tail_lines: Some(2), ..all() }, "tick 2\ntick 3\n"),
        (LogOptions { tail_lines: Some(0), ..all() }, ""),
        (LogOptions { since_seconds: Some(15), ..all() }, "tick 2\ntick 3\n"),
        (LogOptions { since_time: Some("1970-01-01T00:00:30Z".to_owned()), ..all() }, "tick 3\n"),
        // The tail is cut first.
        (LogOptions { tail_lines: Some(1), since_seconds: Some(35), ..all() }, "tick 3\n"),
        (LogOptions { limit_bytes: Some(6), ..all() }, "one\ntw"),
        (LogOptions { stream: "Stderr".to_owned(), ..all() }, "bad\n"),
        (LogOptions { stream: "Stdout".to_owned(), limit_bytes: Some(9), ..all() }, "one\ntwo\nt"),
        (
            LogOptions { timestamps: true, tail_lines: Some(1), ..all() },
            "1970-01-01T00:00:30.000000000Z tick 3\n",
        ),
    ];
    for (options, expected) in cases {
        assert_eq!(read(&log, &options, 35), expected, "{options:?}");
    }
}

#[test]
fn a_log_that_is_followed_tells_each_line_once_and_when_it_comes() {
    let log = log(&[("log-every", "10s")], None);
    let mut reading = Reading::new(&LogOptions::default(), &log, seconds(15));
    assert_eq!(reading.step(&log, seconds(15)), Step::Send(1, "1\n".to_owned()));
    assert_eq!(reading.step(&log, seconds(15)), Step::Wait);
    assert_eq!(reading.next(&log, seconds(15)), Some(seconds(20)));
    assert_eq!(reading.step(&log, seconds(40)), Step::Send(1, "2\n3\n4\n".to_owned()));
    assert!(!log.ended());
}

#[test]
fn no_more_lines_are_kept_than_the_limit() {
    let log = log(&[("log-every", "1ms")], None);
    let text = read(&log, &LogOptions::default(), 1000);
    assert_eq!(text.lines().count() as u64, LOG_LINES);
    assert!(text.ends_with("\n1000000\n"), "the newest are kept");
}

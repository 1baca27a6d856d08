//! Logs and reads of them, compared with the output of a kubelet for the same lines.

use super::*;
use crate::script::LogScript;

const START: Timestamp = Timestamp::UNIX_EPOCH;

fn seconds(n: u64) -> Timestamp {
    later(START, Duration::from_secs(n))
}

/// A script that logs the number of each line at this interval.
fn every(interval: Duration) -> LogScript {
    LogScript { every: Some(interval), ..LogScript::default() }
}

fn log(script: &LogScript, ended: Option<(u64, i32)>) -> Log {
    let ended = ended.map(|(at, code)| (seconds(at), code));
    Log::of(
        script,
        "web",
        "nginx",
        &ContainerRun { id: "1".to_owned(), started_at: START, ended },
        CommandOutput::Absent,
    )
}

fn read(log: &Log, options: &LogQuery, now: u64) -> String {
    let mut reader = LogReader::new(options, log, seconds(now));
    let mut all = String::new();
    loop {
        match reader.step(log, seconds(now)) {
            LogStep::Send(_, text) => all.push_str(&text),
            LogStep::Wait | LogStep::Enough => return all,
        }
    }
}

#[test]
fn a_container_without_a_script_says_that_it_is_simulated() {
    let text = read(&log(&LogScript::default(), None), &LogQuery::default(), 5);
    assert_eq!(text, "simulated container web started (image nginx)\n");
    let text = read(&log(&LogScript::default(), Some((90, 3))), &LogQuery::default(), 100);
    assert_eq!(
        text,
        "simulated container web started (image nginx)\n\
         simulated container web ended with exit code 3 after 1m30s\n"
    );
}

#[test]
fn a_server_logs_its_requests_between_its_start_and_its_end() {
    let run = |ended| ContainerRun { id: "1".to_owned(), started_at: START, ended };
    let mut printed = PrintedLines::default();
    for second in [1, 2] {
        printed.push(LogLine { at: seconds(second), stderr: false, text: format!("GET /{second}") });
    }
    let served = CommandOutput::Served(Arc::new(printed));
    let of = |script: &LogScript, ended| Log::of(script, "web", "nginx", &run(ended), served.clone());
    let start = "simulated container web started (image nginx)\nGET /1\nGET /2\n";
    assert_eq!(read(&of(&LogScript::default(), None), &LogQuery::default(), 5), start);
    let ended = of(&LogScript::default(), Some((seconds(9), 0)));
    let end = "simulated container web ended with exit code 0 after 9s\n";
    assert_eq!(read(&ended, &LogQuery::default(), 10), format!("{start}{end}"));
    let tail = LogQuery { tail_lines: Some(2), ..LogQuery::default() };
    assert_eq!(read(&ended, &tail, 10), format!("GET /2\n{end}"));
    let repeated = of(&every(Duration::from_secs(2)), None);
    assert_eq!(read(&repeated, &LogQuery::default(), 5), "1\n2\n");
}

#[test]
fn the_log_of_a_command_is_its_output_or_the_reason_why_it_is_not_run() {
    let run = ContainerRun { id: "1".to_owned(), started_at: START, ended: Some((seconds(2), 3)) };
    let of = |command| Log::of(&LogScript::default(), "web", "app", &run, command);
    let mut printed = PrintedLines::default();
    for (second, stderr, text) in [(1, false, "hi"), (2, true, "bad")] {
        printed.push(LogLine { at: seconds(second), stderr, text: text.to_owned() });
    }
    let log = of(CommandOutput::Ran(Arc::new(printed)));
    assert_eq!(read(&log, &LogQuery::default(), 5), "hi\nbad\n");
    let stderr = LogQuery { stream: LogStream::Stderr, timestamps: true, ..LogQuery::default() };
    assert_eq!(read(&log, &stderr, 5), "1970-01-01T00:00:02.000000000Z bad\n");
    let log = of(CommandOutput::NotRun("its command is not run: why".to_owned()));
    assert_eq!(
        read(&log, &LogQuery::default(), 5),
        "simulated container web started (image app); its command is not run: why\n\
         simulated container web ended with exit code 3 after 2s\n"
    );
}

#[test]
fn options_choose_lines_as_a_kubelet_does() {
    let all = || LogQuery::default();
    let mut script = every(Duration::from_secs(10));
    script.line = Some("tick {n}".to_owned());
    script.set_lines(true, "bad");
    script.set_lines(false, "one\ntwo");
    let log = log(&script, None);
    let cases = [
        (all(), "one\ntwo\nbad\ntick 1\ntick 2\ntick 3\n"),
        (LogQuery { tail_lines: Some(2), ..all() }, "tick 2\ntick 3\n"),
        (LogQuery { tail_lines: Some(0), ..all() }, ""),
        (LogQuery { since_seconds: Some(15), ..all() }, "tick 2\ntick 3\n"),
        (LogQuery { since_time: Some(seconds(30)), ..all() }, "tick 3\n"),
        // The tail is cut first.
        (LogQuery { tail_lines: Some(1), since_seconds: Some(35), ..all() }, "tick 3\n"),
        (LogQuery { limit_bytes: Some(6), ..all() }, "one\ntw"),
        (LogQuery { stream: LogStream::Stderr, ..all() }, "bad\n"),
        (LogQuery { stream: LogStream::Stdout, limit_bytes: Some(9), ..all() }, "one\ntwo\nt"),
        (
            LogQuery { timestamps: true, tail_lines: Some(1), ..all() },
            "1970-01-01T00:00:30.000000000Z tick 3\n",
        ),
    ];
    for (options, expected) in cases {
        assert_eq!(read(&log, &options, 35), expected, "{options:?}");
    }
}

#[test]
fn a_followed_log_sends_each_line_once_and_says_when_the_next_is_due() {
    let log = log(&every(Duration::from_secs(10)), None);
    let mut reader = LogReader::new(&LogQuery::default(), &log, seconds(15));
    assert_eq!(reader.step(&log, seconds(15)), LogStep::Send(1, "1\n".to_owned()));
    assert_eq!(reader.step(&log, seconds(15)), LogStep::Wait);
    assert_eq!(reader.next(&log, seconds(15)), Some(seconds(20)));
    assert_eq!(reader.step(&log, seconds(40)), LogStep::Send(1, "2\n3\n4\n".to_owned()));
    assert!(!log.ended());
}

#[test]
fn lines_above_the_limit_are_dropped_oldest_first() {
    let log = log(&every(Duration::from_millis(1)), None);
    let text = read(&log, &LogQuery::default(), 1000);
    assert_eq!(text.lines().count() as u64, LOG_LINES);
    assert!(text.ends_with("\n1000000\n"), "the newest are kept");
}

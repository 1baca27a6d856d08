//! Programs that want more memory, work or depth than a container may have: what they hold and do stays within the bounds,
//! and the command says why it ended.

use super::*;
use crate::limits::{ARGUMENT_BYTES, COMMAND_BYTES, CONTAINER_BYTES, STEP_WORK};

/// How a command ended.
struct Ended {
    code: u8,
    killed: Option<Killed>,
    err: String,
    /// The most bytes that its container held, and the most work of one step.
    most: (usize, u64),
}

/// Runs a command for so many steps at most, with a client that takes all output. Every step is checked against the bounds.
fn run_bounded(argv: &[&str], variables: &[(&str, &str)], steps: usize) -> Option<Ended> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let capacity = BufferCapacity::default().namespace().container();
    let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    let environment = Environment {
        workdir: "/".to_owned(),
        variables: variables.iter().map(own).collect(),
        disk: Disk::new(DiskCapacity::default().namespace()),
        memory: capacity.allowance(),
        ..Environment::default()
    };
    let work = environment.work.clone();
    let mut shell = Shell::run(environment, &argv).unwrap();
    let (mut err, mut most) = (String::new(), (0, 0));
    let mut before = 0;
    for _ in 0..steps {
        let step = shell.step();
        let (reserved, done) = (capacity.reserved(), work.total() - before);
        before = work.total();
        most = (most.0.max(reserved), most.1.max(done));
        assert!(reserved <= CONTAINER_BYTES, "{reserved} bytes are held");
        // What begins within the bound may end beyond it: one pass over an input or a file.
        assert!(
            done <= STEP_WORK + 16 * (CONTAINER_BYTES + COMMAND_BYTES) as u64,
            "{done} units of work in one step"
        );
        match step {
            ShellStep::Print(2, bytes) => err.push_str(&String::from_utf8_lossy(bytes.as_ref())),
            ShellStep::Print(..) | ShellStep::Sleep(_) | ShellStep::Yield => {}
            // There is no network.
            ShellStep::Network(..) => {}
            ShellStep::Read => shell.input(None),
            ShellStep::ReadLine => shell.line(None),
            ShellStep::Exit(code) => {
                let killed = shell.killed();
                drop(shell);
                assert_eq!(capacity.reserved(), 0, "all memory is returned");
                return Some(Ended { code, killed, err, most });
            }
        }
    }
    None
}

fn sh(script: &str, steps: usize) -> Option<Ended> {
    run_bounded(&["sh", "-c", script], &[], steps)
}

#[test]
fn programs_that_want_too_much_memory_are_killed_and_say_so() {
    let big = "dd if=/dev/zero of=/f bs=1M count=30 2>/dev/null; ";
    for script in [
        "a=x; while true; do a=$a$a; done".to_owned(),
        "printf \"$(seq 1 100000)%s\" $(seq 1 100000)".to_owned(),
        format!("{big} tar cf - {}", "/f ".repeat(300)),
        format!("{big} cat {}", "/f ".repeat(200)),
        format!("for i in {}; do echo; done", "$(seq 1 100000) ".repeat(200)),
        format!("a=$(seq 1 100000); printenv {}; export a; printenv {}", "a ".repeat(3), "a ".repeat(400)),
        "x() ; X=$(cat /dev/null); a=$(seq 1 100000); for i in 1 2 3 4 5 6 7 8; do a=\"$a$a\"; done; echo \"$a\"".replace("x() ; ", ""),
        format!("{big} while true; do cat /f /f | cat /f - | cat - /f /f | wc; done"),
    ] {
        let ended = sh(&script, 200_000).unwrap_or_else(|| panic!("{script}"));
        assert_eq!((ended.code, ended.killed), (137, Some(Killed::Memory)), "{script}");
        assert!(ended.err.ends_with("Killed: out of the memory that a simulated container may use\n"), "{}", ended.err);
    }
}

#[test]
fn shells_in_shells_have_a_depth() {
    let variables =
        [("X", "sh -c \"$X\""), ("Y", "echo $(sh -c \"$Y\")"), ("Z", "sh -c \"$Z\"; sh -c \"$Z\"")];
    for name in ["X", "Y"] {
        let ended = run_bounded(&["sh", "-c", &format!("sh -c \"${name}\"")], &variables, 100).unwrap();
        assert!(
            ended.err.contains("sh: can't fork: Resource temporarily unavailable\n"),
            "{name}: {}",
            ended.err
        );
        assert_eq!(ended.killed, None);
    }
    // Two shells at each level go on for long, in steps of bounded work and with few processes at a time.
    assert!(run_bounded(&["sh", "-c", "sh -c \"$Z\""], &variables, 200).is_none());
}

#[test]
fn a_test_with_many_negations_is_a_loop() {
    for (count, code) in [(14_000, 0), (14_001, 1)] {
        let argv: Vec<&str> = ["test"].into_iter().chain(vec!["!"; count]).chain(["x"]).collect();
        assert_eq!(run_bounded(&argv, &[], 10).unwrap().code, code);
    }
}

#[test]
fn endless_programs_do_a_bounded_work_in_each_step() {
    let big = "dd if=/dev/zero of=/f bs=1M count=8 2>/dev/null; ";
    let mut all = vec![
        "while true; do y=$(while true; do z=$(while true; do :; done); done); done".to_owned(),
        "for j in $(seq 1 100000); do touch $(seq 1 100000); done".to_owned(),
    ];
    for body in
        ["wc /f", "tail -n 1 /f", "grep -v nope /f > /g", "head -n $i /f > /g", "echo x >> /f", "sort /f"]
    {
        all.push(format!("{big} for i in $(seq 1 5000); do {body}; done"));
    }
    for script in all {
        // Either it goes on in steps of bounded work, or one of its commands was too much.
        if let Some(ended) = sh(&script, 5) {
            assert_eq!(ended.code, 137, "{script}: {} {:?}", ended.err, ended.most);
        }
    }
}

#[test]
fn the_time_slice_of_a_loop_ends() {
    let argv = ["sh", "-c", "for i in $(seq 1 900); do a=$i; b=$i; c=$i; d=$i; done"].map(str::to_owned);
    let mut shell = Shell::run(Environment::default(), &argv).unwrap();
    assert_eq!(shell.step(), ShellStep::Yield);
}

#[test]
fn long_scripts_are_refused_and_quotes_are_read_in_one_pass() {
    let script = format!("echo \"{}\"", "$a".repeat(ARGUMENT_BYTES / 2 - 8));
    assert_eq!(sh(&script, 10).unwrap().code, 0);
    let ended = sh(&format!("{script}{}", "#".repeat(20)), 10).unwrap();
    assert_eq!((ended.code, ended.err.as_str()), (126, "sh: Argument list too long\n"));
}

/// Runs a script of bash for so many steps at most.
fn bash(script: &str, steps: usize) -> Option<Ended> {
    run_bounded(&["bash", "-c", script], &[], steps)
}

#[test]
fn constructs_that_multiply_are_killed() {
    for script in [
        "echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
        "echo {1..99999}{1..99999}",
        "v=$(seq 1 20000); while :; do v=${v//1/1111111111}; done",
        "a=(x); while :; do a+=(\"${a[@]}\"); done",
        "v=x; while :; do v=$(cat <<E\n$v$v\nE\n); done",
        "awk 'BEGIN { s = \"x\"; while (1) s = s s }'",
        "awk 'BEGIN { while (1) a[n++] = n }'",
        "awk 'BEGIN { while (1) ; }'",
        "echo x | sed ':a;s/x/xx/g;ba'",
        "echo x | sed ':a;ba'",
        "echo x | sed ':a;G;h;ba'",
        "printf '%65000s' x >/f; sed 's/ */&&&&&&&&&&/g;s/ /&&&&&&&&&&/g;s/ /&&&&&&&&&&/g;s/ /&&&&&&&&&&/g' /f",
        "yes | head -n 3000 | tr -d '\\n' >/f; grep '\\(y*\\)*\\1x' /f",
    ] {
        let ended = bash(&script.replace("\\n", "\n"), 400_000).unwrap_or_else(|| panic!("{script} goes on"));
        assert_eq!(ended.code, 137, "{script}: {}", ended.err);
        assert!(ended.killed.is_some(), "{script}");
    }
}

#[test]
fn functions_and_processes_have_a_bound() {
    for (script, why) in [
        ("f() { f; }; f", "too many nested calls"),
        ("f() { eval f; }; f", "too many nested calls"),
        ("f() { f | f; }; f", "can't fork"),
        ("f() { f & f; }; f", "can't fork"),
        ("while :; do sleep 1000 & done", "can't fork"),
        ("f() { echo $(f); }; f", "can't fork"),
        ("f() { (f); }; f", "can't fork"),
        ("awk 'function f(n) { return f(n + 1) } BEGIN { f(1) }'", "too many nested calls"),
    ] {
        let ended = sh(script, 100_000).unwrap_or_else(|| panic!("{script} goes on"));
        assert!(ended.err.contains(why), "{script}: {}", &ended.err[..ended.err.len().min(500)]);
    }
}

#[test]
fn long_chains_are_read_without_recursion() {
    for (part, count) in
        [("true && ", 8_000), ("! ", 8_000), ("true | ", 100), ("true; ", 8_000), ("a=1 ", 8_000)]
    {
        let script = format!("{}true", part.repeat(count));
        assert!(sh(&script, 100_000).is_some(), "{part}");
    }
    for (open, close) in
        [("${x:-", "}"), ("$((", "))"), ("case x in x) ", ";; esac;"), ("f() { ", "; }; f"), ("(", ")")]
    {
        let script = format!("echo {}{}", open.repeat(4_000), close.repeat(4_000));
        assert_ne!(sh(&script, 1_000).map(|ended| ended.code), Some(0), "{open}");
    }
    for script in
        ["awk 'BEGIN { x = LEFT1RIGHT }'", "sed 'LEFTpRIGHT'", "expr LEFT 1 RIGHT", "find / LEFT RIGHT"]
    {
        let (open, close) = match script {
            script if script.starts_with("awk") => ("(", ")"),
            script if script.starts_with("sed") => ("{", "}"),
            script if script.starts_with("expr") => ("\\( ", "\\) "),
            _ => ("! ", ""),
        };
        let script = script.replace("LEFT", &open.repeat(5_000)).replace("RIGHT", &close.repeat(5_000));
        assert!(sh(&script, 1_000).is_some(), "{}", &script[..20]);
    }
}

#[test]
fn a_pipe_ends_what_nobody_reads() {
    let ended = sh(
        "yes | head -n 1; while :; do echo x; done | head -n 2; seq 1 100000 | { read a; echo $a; }",
        10_000,
    )
    .unwrap();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(12))]

    #[test]
    fn generated_programs_stay_within_their_bounds(lines in proptest::collection::vec(proptest::sample::select(vec![
        "a=$a$a", "a=xyzxyzxyz", "b=$(echo $a$a$a)", "a=$(cat /f)", "echo $a >> /f", "cat /f /f /f >> /g", "cp /g /f",
        "printf \"$a%s\" 1 2 3 4 5 6 7", "for i in $a 1 2 3; do a=$a$i; done", "for i in $(seq 1 200); do echo $i$a >> /g; done",
        "sh -c 'a=$a$a; echo $a' | cat | sort", "tar cf - /f /g | tar t", "X='a=$a$a; sh -c \"$X\"'", "sh -c \"$X\"",
        "while true; do a=$a$a; done", "mkdir /d", "touch /d/1 /d/2", "find / / /", "ls -l / /d", "sleep 1", "wc /f /g",
        "f() { a=$a$a; f; }", "f & f", "cat <<E\n$a$a\nE", "echo $a | sed 's/x/xx/g' >> /g", "awk '{ s = s $0 } END { print s s }' /f",
        "(a=$a$a; echo $a) | sort | uniq -c", "trap 'a=$a$a' EXIT", "read a < /f", "set -- $a $a", "echo ${a#x*y}", "find / -exec echo {} +",
        "dd if=/dev/zero of=/f bs=1M count=1 2>/dev/null", "grep -v x /f /g", "head -n 3 /f", "y=$(while true; do :; done)",
    ]), 1..12)) {
        let _ = sh(&lines.join("; "), 100);
    }
}

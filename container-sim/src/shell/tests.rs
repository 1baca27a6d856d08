//! Output and exit codes of commands, scripts and programs.

use super::*;
use crate::limits::{COMMAND_BYTES, COMMANDS_BYTES};

fn environment() -> Environment {
    let file = |path: &str, text: &str| (path.to_owned(), Arc::from(text.as_bytes()));
    let answer = ScriptedAnswer { stdout: "PONG\n".to_owned(), ..ScriptedAnswer::default() };
    Environment {
        hostname: "web".to_owned(),
        workdir: "/".to_owned(),
        variables: vec![("HOME".to_owned(), "/root".to_owned()), ("A".to_owned(), "b c".to_owned())],
        files: [file("/etc/config/key", "value"), file("/etc/hostname", "web\n")].into(),
        answers: [("redis-cli ping".to_owned(), answer)].into(),
        read_only: ["/etc/config".to_owned()].into(),
        ..Environment::default()
    }
}

/// Output (standard error with the prefix `2>`) and exit code of a command, or the error of the runtime.
fn run(argv: &[&str]) -> Result<(String, u8), String> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut shell = Shell::run(environment(), &argv).map_err(|error| error.to_string())?;
    let mut text = String::new();
    loop {
        match shell.step() {
            ShellStep::Print(channel, bytes) => {
                text.push_str(if channel == 2 { "2>" } else { "" });
                text.push_str(&String::from_utf8(bytes.into_bytes()).unwrap());
            }
            ShellStep::Sleep(time) => text.push_str(&format!("<{time:?}>")),
            // There is no network.
            ShellStep::Yield | ShellStep::Network(..) => {}
            ShellStep::Read => shell.input(None),
            ShellStep::ReadLine => shell.line(None),
            ShellStep::Exit(code) => return Ok((text, code)),
        }
    }
}

#[test]
fn commands_behave_like_their_unix_namesakes() {
    let cases: &[(&[&str], &str, u8)] = &[
        (&["echo", "hi", "there"], "hi there\n", 0),
        (&["echo", "-n", "$A"], "$A", 0),
        (&["false"], "", 1),
        (&["hostname"], "web\n", 0),
        (&["/bin/cat", "/etc/config/key"], "value", 0),
        (&["cat", "/nope"], "2>cat: can't open '/nope': No such file or directory\n", 1),
        (&["env"], "HOME=/root\nA=b c\n", 0),
        (&["printenv", "A"], "b c\n", 0),
        (&["ls", "/etc"], "config\nhostname\n", 0),
        (&["ls", "/nope"], "2>ls: /nope: No such file or directory\n", 1),
        (&["sleep", "1.5"], "<1.5s>", 0),
        (&["uptime"], " 00:00:00 up 1 min,  0 users,  load average: 0.00, 0.00, 0.00\n", 0),
        (&["redis-cli", "ping"], "PONG\n", 0),
        (&["id"], "uid=0(root) gid=0(root) groups=0(root)\n", 0),
    ];
    for (argv, text, code) in cases {
        assert_eq!(run(argv), Ok(((*text).to_owned(), *code)), "{argv:?}");
    }
}

#[test]
fn a_missing_program_is_an_error_of_the_container_runtime() {
    for argv in [&["nginx", "-v"][..], &["redis-cli"], &["exit", "3"]] {
        let expected = format!("exec: \"{}\": executable file not found in $PATH", argv[0]);
        assert_eq!(run(argv), Err(expected));
    }
}

#[test]
fn scripts_run_command_by_command() {
    let cases = [
        ("echo a; echo b", "a\nb\n", 0),
        ("false && echo a || echo b", "b\n", 0),
        ("true && exit 3; echo never", "", 3),
        ("echo \"$A\" '$A' ${HOME}x \"\" end", "b c $A /rootx  end\n", 0),
        ("false; echo $?", "1\n", 0),
        ("nope", "2>sh: nope: not found\n", 127),
        ("nope 2>/dev/null || echo gone", "gone\n", 0),
        ("echo err >&2", "2>err\n", 0),
        ("echo quiet > /dev/null 2>&1", "", 0),
        ("X=1; export Y=2\necho $X$Y # done", "12\n", 0),
        ("cd /etc && pwd && cat hostname", "/etc\nweb\n", 0),
        ("sh -c 'echo inner; exit' ; redis-cli ping", "inner\nPONG\n", 0),
        ("[ -f /etc/hostname ] && test ! -d /nope && echo yes", "yes\n", 0),
        ("echo a | cat", "a\n", 0),
        ("echo a | grep -q b || echo no | cat; echo $?", "no\n0\n", 0),
        ("false && echo a | cat; printf '%s\\n' b a | sort | head -n 1", "a\n", 0),
        ("echo one > /tmp/f; echo two >>/tmp/f; cat < /tmp/f; wc -l /tmp/f", "one\ntwo\n2 /tmp/f\n", 0),
        ("sh -c 'echo in; nope' > /tmp/f 2>&1; cat /tmp/f", "in\nsh: nope: not found\n", 0),
        ("echo x | sh -c 'cat; cat'", "x\n", 0),
        ("echo x > /etc/config/key", "2>sh: can't create /etc/config/key: Read-only file system\n", 1),
        ("echo x > /no/such", "2>sh: can't create /no/such: nonexistent directory\n", 1),
        (
            "mkdir -p /a/b && touch /a/b/c && find /a -type f && rm -r /a && ls /a",
            "/a/b/c\n2>ls: /a: No such file or directory\n",
            1,
        ),
        ("ln -s /tmp /t; echo x > /t/f; cat /tmp/f; cd /t && pwd", "x\n/tmp\n", 0),
        (
            "mkdir /a; cp /etc/hostname /a; mv /a /b; ls /b; ls -l /b; ls -a /b | tr '\\n' ' '",
            "hostname\ntotal 4\n-rw-r--r--    1 root     root             4 Jan  1 00:00 hostname\n. .. hostname ",
            0,
        ),
        (
            "dd if=/dev/zero of=/big bs=1M count=65 || rm -f /big",
            "2>dd: error writing '/big': No space left on device\n",
            0,
        ),
        ("", "", 0),
    ];
    for (script, text, code) in cases {
        assert_eq!(run(&["sh", "-c", script]), Ok((text.to_owned(), code)), "{script}");
    }
}

#[test]
fn loops_conditions_and_substitutions_run_as_in_a_shell() {
    let cases = [
        ("for i in 1 2 3; do echo $i; done", "1\n2\n3\n", 0),
        ("for i in $(seq 1 3); do date; done", "Thu Jan  1 00:00:00 UTC 1970\n".repeat(3).leak(), 0),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo -n $i; done; echo", "123\n", 0),
        ("i=0\nuntil test $i = 2\ndo\n  i=$(($i + 1)) # round\n  sleep 1\ndone\ndate +%s", "<1s><1s>2\n", 0),
        ("for a in $A \"$A\" 'x  y'; do echo \"[$a]\"; done", "[b]\n[c]\n[b c]\n[x  y]\n", 0),
        (
            "for i in 1 2 3 4; do if [ $i = 2 ]; then continue; elif [ $i = 4 ]; then break; else echo $i; fi; done",
            "1\n3\n",
            0,
        ),
        ("if false; then echo a; fi; echo $?", "0\n", 0),
        ("if ! [ -e /nope ]; then echo absent; fi; ! true; echo $?", "absent\n1\n", 0),
        ("while false; do echo; done && echo never ran", "never ran\n", 0),
        ("true || for i in 1; do echo; done; { echo a; false; } || echo b", "a\nb\n", 0),
        ("X=$(false); echo $?; echo $((1/0)); echo never", "1\n2>sh: divide by zero\n", 2),
        ("X=$(echo 'a  b'; echo c); echo \"$X\"; echo $X", "a  b\nc\na b c\n", 0),
        ("echo \"$(cat /etc/hostname)-$(echo \")\")\"", "web-)\n", 0),
        ("for i in; do echo; done; for i in 1; do for j in a b; do echo $i$j; break; done; done", "1a\n", 0),
        ("echo x > /tmp/$(hostname); cat /tmp/web; while true; do exit 3; done", "x\n", 3),
        ("echo while do done", "while do done\n", 0),
        ("date foo", "2>date: invalid date 'foo'\n", 1),
        ("date -u +%Y-%m-%dT%H:%M:%SZ", "1970-01-01T00:00:00Z\n", 0),
    ];
    for (script, text, code) in cases {
        assert_eq!(run(&["sh", "-c", script]), Ok((text.to_owned(), code)), "{script}");
    }
}

#[test]
fn a_loop_without_end_neither_blocks_its_caller_nor_grows() {
    let argv = ["sh", "-c", "while true; do :; done"].map(str::to_owned);
    let mut shell = Shell::run(environment(), &argv).unwrap();
    for _ in 0..5 {
        assert!(matches!(shell.step(), ShellStep::Sleep(_) | ShellStep::Yield));
    }
    let argv = ["sh", "-c", "while true; do echo a; sleep 5; date +%s; done"].map(str::to_owned);
    let mut shell = Shell::run(environment(), &argv).unwrap();
    for round in 1..2_000 {
        assert!(matches!(shell.step(), ShellStep::Print(1, _)));
        assert_eq!(shell.step(), ShellStep::Sleep(Duration::from_secs(5)));
        let expected = format!("{}\n", round * 5);
        assert!(
            matches!(shell.step(), ShellStep::Print(1, printed) if printed.as_ref() == expected.as_bytes())
        );
    }
}

#[test]
fn deeply_nested_scripts_are_refused() {
    for (open, close) in [("if true; then ", " fi;"), ("{ ", " };"), ("echo $(", ")"), ("echo $((", "))")] {
        let script = format!("{}true;{}", open.repeat(5_000), close.repeat(5_000));
        assert_ne!(run(&["sh", "-c", &script]).unwrap().1, 0, "{open}");
    }
}

#[test]
fn a_shell_without_a_script_reads_lines() {
    let mut shell = Shell::run(environment(), &["sh".to_owned()]).unwrap();
    assert_eq!(shell.step(), ShellStep::ReadLine);
    shell.line(Some("echo hi"));
    assert!(matches!(shell.step(), ShellStep::Print(1, printed) if printed.as_ref() == b"hi\n"));
    assert_eq!(shell.step(), ShellStep::ReadLine);
    shell.line(Some("exit 4"));
    assert_eq!(shell.step(), ShellStep::Exit(4));
}

proptest::proptest! {
    #[test]
    fn no_script_makes_the_shell_panic_or_go_on_for_ever(script in "[ -~\n]{0,40}|[a-z$\"'{}();&|> ]{0,40}|((for i in|do|done|if|then|fi|!|[{]|[}]|echo|false|[$][(]|[)]|;)[ ;]){0,12}") {
        let _ = run(&["sh", "-c", &script]);
    }
}

/// Runs a script with this input. Returns standard output, standard error, and the exit code.
fn run_in(environment: &Environment, script: &str, input: &[u8]) -> (Vec<u8>, String, u8) {
    let argv = ["sh", "-c", script].map(str::to_owned);
    let mut shell = Shell::run(environment.clone(), &argv).unwrap();
    let (mut out, mut err, mut rest) = (Vec::new(), String::new(), Some(input));
    loop {
        match shell.step() {
            ShellStep::Print(1, bytes) => out.extend(bytes.into_bytes()),
            ShellStep::Print(_, bytes) => err.push_str(&String::from_utf8(bytes.into_bytes()).unwrap()),
            ShellStep::Read => shell.input(rest.take()),
            ShellStep::Sleep(_) | ShellStep::Yield | ShellStep::Network(..) => {}
            ShellStep::ReadLine => shell.line(None),
            ShellStep::Exit(code) => return (out, err, code),
        }
    }
}

#[test]
fn an_archive_of_one_container_unpacks_in_another() {
    let (from, to) = (environment(), environment());
    let long = "n".repeat(150);
    let script = format!(
        "mkdir -p /data/in; echo one > /data/{long}; echo two > /data/in/b; chmod +x /data/in/b; ln -s in/b /data/l"
    );
    assert_eq!(run_in(&from, &script, b"").2, 0);
    let (archive, err, code) = run_in(&from, "tar cf - /data", b"");
    assert_eq!((err.as_str(), code), ("tar: removing leading '/' from member names\n", 0));
    let (out, err, code) = run_in(&to, "mkdir /x; tar -xmf - -C /x; find /x | sort", &archive);
    let expected = format!("/x\n/x/data\n/x/data/in\n/x/data/in/b\n/x/data/l\n/x/data/{long}\n");
    assert_eq!((String::from_utf8(out).unwrap(), err.as_str(), code), (expected, "", 0));
    let (out, _, _) =
        run_in(&to, "cat /x/data/l; test -x /x/data/in/b && cd /x/data && tar c in | tar t", b"");
    assert_eq!(String::from_utf8(out).unwrap(), "two\nin/\nin/b\n");
}

#[test]
fn an_archive_cannot_escape_its_container_or_target() {
    let environment = environment();
    let mut builder = ::tar::Builder::new(Vec::new());
    let mut header = ::tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    header.as_mut_bytes()[..8].copy_from_slice(b"../../up");
    header.set_cksum();
    builder.append(&header, &b"x"[..]).unwrap();
    let archive = builder.into_inner().unwrap();
    // A path above the root is the root: the file stays inside the container.
    let (_, err, code) = run_in(&environment, "tar xf - -C /tmp", &archive);
    assert_eq!((err.as_str(), code), ("", 0));
    assert_eq!(run_in(&environment, "cat /up", b"").0, b"x");
    let (_, err, code) = run_in(&environment, "tar xjf - -C /tmp; tar xf - -C /nope", b"");
    assert!(
        err.contains("only gzip is simulated") && err.contains("can't change directory to '/nope'"),
        "{err}"
    );
    assert_eq!(code, 1);
}

#[test]
fn kubectl_cp_resumes_a_truncated_file() {
    let environment = environment();
    let (whole, _, _) = run_in(&environment, "tar cf - /etc/hostname", b"");
    let (rest, _, code) = run_in(&environment, "tar cf - /etc/hostname | tail -c+101", b"");
    assert_eq!((&rest, code), (&whole[100..].to_vec(), 0));
}

proptest::proptest! {
    #[test]
    fn no_archive_makes_it_panic(bytes in proptest::collection::vec(0u8.., 0..2048), at in 0usize..512) {
        let environment = environment();
        let (mut archive, _, _) = run_in(&environment, "tar cf - /etc", b"");
        if let Some(byte) = archive.get_mut(at) { *byte ^= 0x55 }
        let _ = run_in(&environment, "tar xf - -C /tmp", &archive);
        let _ = run_in(&environment, "tar xf -", &bytes);
    }
}

#[test]
fn an_archive_of_nothing_is_no_archive() {
    let (out, err, code) = run_in(&environment(), "tar cf - /nope", b"");
    assert_eq!(
        (out.as_slice(), err.as_str(), code),
        (&b""[..], "tar: /nope: No such file or directory\n", 1)
    );
}

/// Twelve sessions without a reader of their output once held 1.6 GB.
#[test]
fn unread_output_is_bounded_over_all_sessions_and_small_output_always_fits() {
    const LARGE: usize = 48 * 1024 * 1024;
    let memory = BufferCapacity::default();
    let disk = Disk::new(DiskCapacity::default());
    disk.put("/large", DiskEntry::file(&vec![b'x'; LARGE], 0)).unwrap();
    let session = |script: &str| {
        let environment = Environment { memory: memory.allowance(), disk: disk.clone(), ..environment() };
        Shell::run(environment, &["sh", "-c", script].map(str::to_owned)).unwrap()
    };
    let mut unread = Vec::new();
    loop {
        let mut shell = session("cat /large");
        match shell.step() {
            ShellStep::Print(1, printed) => {
                assert_eq!(printed.as_ref().len(), LARGE);
                unread.push(printed);
            }
            refused => {
                let told = b"Killed: out of the memory that a simulated container may use\n";
                assert!(matches!(refused, ShellStep::Print(2, printed) if printed.as_ref() == told));
                assert_eq!(shell.step(), ShellStep::Exit(137));
                break;
            }
        }
    }
    assert_eq!(unread.len(), COMMANDS_BYTES / LARGE);
    let mut small = session("echo hi");
    assert!(matches!(small.step(), ShellStep::Print(1, printed) if printed.as_ref() == b"hi\n"));
    let mut reads = session("sort");
    assert_eq!(reads.step(), ShellStep::Read);
    reads.input(Some(&vec![b'y'; COMMAND_BYTES + 1]));
    assert!(
        matches!(reads.step(), ShellStep::Print(2, printed) if printed.as_ref().starts_with(b"sort: Cannot allocate memory"))
    );
    unread.pop();
    assert!(matches!(session("cat /large").step(), ShellStep::Print(1, _)), "what was read makes room");
}

/// A command moves between threads, and its references do too.
#[test]
fn a_shell_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Shell>();
}

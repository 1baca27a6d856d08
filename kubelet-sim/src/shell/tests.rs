//! What commands print and how they end.

use super::*;

fn world() -> World {
    let file = |path: &str, text: &str| (path.to_owned(), text.as_bytes().to_vec());
    let answer = ExecAnswer { stdout: "PONG\n".to_owned(), ..ExecAnswer::default() };
    World {
        hostname: "web".to_owned(),
        workdir: "/".to_owned(),
        env: vec![("HOME".to_owned(), "/root".to_owned()), ("A".to_owned(), "b c".to_owned())],
        files: [file("/etc/config/key", "value"), file("/etc/hostname", "web\n")].into(),
        answers: [("redis-cli ping".to_owned(), answer)].into(),
        date: "now".to_owned(),
    }
}

/// What a command prints (`2>` before what goes to stderr) and its code, or the error of the runtime.
fn run(argv: &[&str]) -> Result<(String, u8), String> {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let mut shell = Shell::run(world(), &argv).map_err(|error| error.to_string())?;
    let mut text = String::new();
    loop {
        match shell.step() {
            Step::Print(channel, bytes) => {
                text.push_str(if channel == 2 { "2>" } else { "" });
                text.push_str(&String::from_utf8(bytes).unwrap());
            }
            Step::Sleep(time) => text.push_str(&format!("<{time:?}>")),
            Step::Copy => text.push_str("<copy>"),
            Step::ReadLine => shell.line(None),
            Step::Exit(code) => return Ok((text, code)),
        }
    }
}

#[test]
fn commands_do_what_their_names_say() {
    let cases: &[(&[&str], &str, u8)] = &[
        (&["echo", "hi", "there"], "hi there\n", 0),
        (&["echo", "-n", "$A"], "$A", 0),
        (&["false"], "", 1),
        (&["hostname"], "web\n", 0),
        (&["/bin/cat", "/etc/config/key"], "value", 0),
        (&["cat", "/nope"], "2>cat: can't open '/nope': No such file or directory\n", 1),
        (&["cat"], "<copy>", 0),
        (&["env"], "HOME=/root\nA=b c\n", 0),
        (&["printenv", "A"], "b c\n", 0),
        (&["ls", "/etc"], "config\nhostname\n", 0),
        (&["ls", "/nope"], "2>ls: /nope: No such file or directory\n", 1),
        (&["sleep", "1.5"], "<1.5s>", 0),
        (&["redis-cli", "ping"], "PONG\n", 0),
        (&["id"], "uid=0(root) gid=0(root) groups=0(root)\n", 0),
    ];
    for (argv, text, code) in cases {
        assert_eq!(run(argv), Ok(((*text).to_owned(), *code)), "{argv:?}");
    }
}

#[test]
fn a_program_that_is_not_there_is_the_runtimes_error() {
    for argv in [&["nginx", "-v"][..], &["redis-cli"], &["exit", "3"], &["tar", "cf", "-"], &["sh", "file"]] {
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
        ("echo a | cat", "2>sh: syntax error: the simulated shell does not know \"|\"\n", 2),
        ("echo 'a", "2>sh: syntax error: unterminated quoted string\n", 2),
        ("echo $(date)", "2>sh: syntax error: the simulated shell does not know \"$(\"\n", 2),
        ("for i in 1; do echo; done", "2>sh: syntax error: the simulated shell does not know \"for\"\n", 2),
        ("&& echo", "2>sh: syntax error: unexpected operator\n", 2),
        ("", "", 0),
    ];
    for (script, text, code) in cases {
        assert_eq!(run(&["sh", "-c", script]), Ok((text.to_owned(), code)), "{script}");
    }
}

#[test]
fn a_shell_without_a_script_reads_lines() {
    let mut shell = Shell::run(world(), &["sh".to_owned()]).unwrap();
    assert_eq!(shell.step(), Step::ReadLine);
    shell.line(Some("echo hi"));
    assert_eq!(shell.step(), Step::Print(1, b"hi\n".to_vec()));
    assert_eq!(shell.step(), Step::ReadLine);
    shell.line(Some("exit 4"));
    assert_eq!(shell.step(), Step::Exit(4));
}

proptest::proptest! {
    #[test]
    fn no_script_makes_the_shell_panic_or_go_on_for_ever(script in "[ -~\n]{0,40}|[a-z$\"'{};&|> ]{0,40}") {
        let _ = run(&["sh", "-c", &script]);
    }
}

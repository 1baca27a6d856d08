//! Commands that run on: signals, files that change beside them, and users.

use super::*;

/// A command under way, with what it has printed.
struct Running {
    shell: Shell,
    text: String,
}

fn start(environment: Environment, argv: &[&str]) -> Running {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    Running { shell: Shell::run(environment, &argv).unwrap(), text: String::new() }
}

impl Running {
    /// Runs until the command sleeps, and returns how long it wants to, or until its end, and returns its exit code.
    fn until_it_sleeps(&mut self) -> Result<Duration, u8> {
        loop {
            match self.shell.step() {
                ShellStep::Print(_, bytes) => {
                    self.text.push_str(&String::from_utf8(bytes.into_bytes()).unwrap());
                }
                ShellStep::Sleep(time) => return Ok(time),
                // There is no network.
                ShellStep::Yield | ShellStep::Network(..) => {}
                ShellStep::Read => self.shell.input(None),
                ShellStep::ReadLine => self.shell.line(None),
                ShellStep::Exit(code) => return Err(code),
            }
        }
    }

    fn finish(mut self) -> (String, u8) {
        for _ in 0..10_000 {
            if let Err(code) = self.until_it_sleeps() {
                return (self.text, code);
            }
        }
        panic!("it does not end: {}", self.text);
    }
}

fn environment() -> Environment {
    let workdir = "/".to_owned();
    let programs = [("/agnhost".to_owned(), "agnhost".to_owned())].into();
    Environment { hostname: "web".to_owned(), workdir, programs, ..Environment::default() }
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn sigterm_runs_the_trap_of_a_shell_that_waits() {
    let script = "trap 'echo bye; exit 3' TERM; sleep 3600 & wait";
    let mut running = start(environment(), &["sh", "-c", script]);
    assert_eq!(running.until_it_sleeps(), Ok(HOUR));
    running.shell.signal(15, HOUR);
    assert_eq!(running.finish(), ("bye\n".to_owned(), 3));
}

#[test]
fn a_trap_waits_for_the_command_in_the_foreground() {
    let mut running =
        start(environment(), &["sh", "-c", "trap 'echo bye; exit 3' TERM; sleep 10; echo slept"]);
    assert_eq!(running.until_it_sleeps(), Ok(Duration::from_secs(10)));
    running.shell.signal(15, Duration::from_secs(6));
    assert_eq!(running.until_it_sleeps(), Ok(Duration::from_secs(6)), "four of ten seconds have passed");
    assert_eq!(running.finish(), ("bye\n".to_owned(), 3));
}

#[test]
fn the_first_process_of_a_container_ignores_sigterm_without_a_trap_but_not_sigkill() {
    let mut running = start(environment(), &["sleep", "3600"]);
    assert_eq!(running.until_it_sleeps(), Ok(HOUR));
    running.shell.signal(15, HOUR);
    assert_eq!(running.until_it_sleeps(), Ok(HOUR));
    running.shell.signal(9, HOUR);
    assert_eq!(running.finish(), (String::new(), 137));
}

#[test]
fn agnhost_pauses_until_a_signal_and_leaves_a_message() {
    for (signal, name, code) in [(15, "terminated", 2), (2, "interrupt", 1)] {
        let disk = Disk::default();
        let environment = Environment { disk: disk.clone(), ..environment() };
        let mut running = start(environment, &["/agnhost"]);
        let waits = running.until_it_sleeps().unwrap();
        assert!(waits > 1000 * HOUR, "nothing wakes it up: {waits:?}");
        running.shell.signal(signal, waits);
        let last = format!("exiting because of signal \"{name}\"\n");
        assert_eq!(running.finish(), (format!("Paused\nSignals registered\n{last}"), code));
        let left = disk.get("/dev/termination-log").map(|entry| entry.content);
        assert_eq!(left, Some(Content::File(last.as_bytes().into())));
    }
}

#[test]
fn agnhost_prints_its_arguments_and_refuses_unknown_ones() {
    let of = |argv: &[&str]| start(environment(), argv).finish();
    assert_eq!(
        of(&["/agnhost", "entrypoint-tester", "a", "b"]),
        ("[/agnhost entrypoint-tester a b]\n".to_owned(), 0)
    );
    let (text, code) = of(&["/agnhost", "nope"]);
    assert!(text.starts_with("Error: unknown command \"nope\" for \"app\"\n") && code == 1, "{text}");
    let elsewhere = Environment { programs: ImagePrograms::new(), ..environment() };
    assert!(Shell::run(elsewhere, &["/agnhost".to_owned()]).is_err(), "only its image has it");
}

#[test]
fn the_log_generator_prints_its_lines_over_its_time() {
    let argv = ["/agnhost", "logs-generator", "--log-lines-total", "100", "--run-duration", "20s"];
    let mut running = start(environment(), &argv);
    let mut slept = Duration::ZERO;
    let code = loop {
        match running.until_it_sleeps() {
            Ok(time) => slept += time,
            Err(code) => break code,
        }
    };
    assert_eq!((code, slept), (0, Duration::from_secs(20)));
    assert_eq!(running.text.lines().count(), 100);
    for (number, line) in running.text.lines().enumerate() {
        assert!(line.starts_with("I0101 00:00:"), "{line}");
        assert!(line.contains(&format!("       1 logs_generator.go:76] {number} ")), "{line}");
    }
}

/// A volume whose root has these permissions, owner and group.
fn volume(mode: u32, user: u32, group: u32) -> Disk {
    let disk = Disk::default();
    disk.put("", DiskEntry { mode, user, group, ..DiskEntry::folder(0) }).unwrap();
    disk
}

#[test]
fn mounttest_says_what_it_sees_of_a_mounted_folder() {
    let disk = volume(0o1777, 0, 0);
    let environment = Environment {
        volumes: [("/data".to_owned(), disk.clone())].into(),
        memory_mounts: ["/data".to_owned()].into(),
        user: User { user: 1001, group: 7, more_groups: Vec::new() },
        ..environment()
    };
    let argv =
        ["/agnhost", "mounttest", "--fs_type=/data", "--new_file_0660=/data/new", "--file_perm=/data/new"];
    let said = "mount type of \"/data\": tmpfs\ncontent of file \"/data/new\": mount-tester new file\n\n\
                perms of file \"/data/new\": -rw-rw----\n";
    assert_eq!(start(environment.clone(), &argv).finish(), (said.to_owned(), 0));
    let made = disk.get("/new").unwrap();
    assert_eq!((made.user, made.group, made.mode), (1001, 7, 0o660));
    let argv =
        ["/agnhost", "mounttest", "--file_mode=/data", "--file_owner", "/data/new", "--file_content=/no"];
    let said = "mode of file \"/data\": dtrwxrwxrwx\nowner UID of \"/data/new\": 1001\nowner GID of \"/data/new\": 7\n\
                error reading file content for \"/no\": open /no: no such file or directory\n";
    assert_eq!(start(environment, &argv).finish(), (said.to_owned(), 1));
}

#[test]
fn mounttest_waits_in_a_loop_for_a_file() {
    let disk = volume(0o755, 0, 0);
    let environment = Environment { volumes: [("/data".to_owned(), disk.clone())].into(), ..environment() };
    let argv =
        ["/agnhost", "mounttest", "--file_content_in_loop=/data/k", "--break_on_expected_content=false"];
    let mut running = start(environment, &argv);
    let two = Ok(Duration::from_secs(2));
    assert_eq!(running.until_it_sleeps(), two);
    disk.put("/k", DiskEntry::file(b"one", 0)).unwrap();
    assert_eq!(running.until_it_sleeps(), two);
    disk.put("/k", DiskEntry::file(b"two", 0)).unwrap();
    assert_eq!(running.until_it_sleeps(), two);
    let said = "Error reading file /data/k: open /data/k: no such file or directory, retrying\n\
                content of file \"/data/k\": one\ncontent of file \"/data/k\": two\n";
    assert_eq!(running.text, said);
    assert_eq!(running.finish().0.lines().count(), 90, "every two of 180 seconds");
}

#[test]
fn tail_follows_a_file_as_it_grows() {
    let environment = Environment::default();
    let disk = environment.disk.clone();
    disk.put("/log", DiskEntry::file(b"one\ntwo\n", 0)).unwrap();
    let mut running = start(environment, &["tail", "-f", "-n", "1", "/log"]);
    let second = Ok(Duration::from_secs(1));
    assert_eq!(running.until_it_sleeps(), second);
    disk.put("/log", DiskEntry::file(b"one\ntwo\nthree\n", 0)).unwrap();
    assert_eq!(running.until_it_sleeps(), second);
    disk.put("/log", DiskEntry::file(b"new\n", 0)).unwrap();
    assert_eq!(running.until_it_sleeps(), second);
    assert_eq!(running.text, "two\nthree\nnew\n");
    let mut running = start(Environment::default(), &["tail", "-f", "/dev/null"]);
    assert!(running.until_it_sleeps().unwrap() > 1000 * HOUR);
}

#[test]
fn files_are_for_the_users_that_their_modes_name() {
    let disk = volume(0o2770, 0, 50);
    disk.put("/secret", DiskEntry { mode: 0o440, group: 50, ..DiskEntry::file(b"s", 0) }).unwrap();
    disk.put("/private", DiskEntry { mode: 0o600, ..DiskEntry::file(b"p", 0) }).unwrap();
    let of = |user: User, script: &str| {
        let volumes = [("/data".to_owned(), disk.clone())].into();
        start(Environment { volumes, user, ..environment() }, &["sh", "-c", script]).finish()
    };
    let member = User { user: 1000, group: 7, more_groups: vec![50] };
    let (text, _) = of(member.clone(), "id; cat /data/secret; echo; cat /data/private; echo x > /data/new");
    assert_eq!(text, "uid=1000 gid=7 groups=7,50\ns\ncat: can't open '/data/private': Permission denied\n");
    let (text, _) = of(member, "stat -c '%u %g' /data/new; chown 5 /data/new; chmod 600 /data/new; whoami");
    let refused = "chown: /data/new: Operation not permitted\nwhoami: unknown uid 1000\n";
    assert_eq!(text, format!("1000 50\n{refused}"));
    let stranger = User { user: 8, group: 8, more_groups: Vec::new() };
    let (text, code) = of(stranger, "cat /data/secret; rm /data/new");
    let denied = "Permission denied";
    assert_eq!(
        text,
        format!("cat: can't open '/data/secret': {denied}\nrm: can't remove '/data/new': {denied}\n")
    );
    assert_eq!(code, 1);
    let (text, _) = of(User::default(), "chown 5:6 /data/new; ls -l /data/new; cat /data/private");
    assert_eq!(text, "-rw-------    1 5        6                2 Jan  1 00:00 /data/new\np");
}

#[test]
fn a_read_only_root_leaves_its_mounts_writable() {
    let volumes = [("/data".to_owned(), volume(0o777, 0, 0)), ("/ro".to_owned(), volume(0o777, 0, 0))].into();
    let read_only = ["/".to_owned(), "/ro".to_owned()].into();
    let script = "echo x > /file; echo y > /data/file; cat /data/file; echo z > /ro/file; echo > /dev/null";
    let running = start(Environment { volumes, read_only, ..environment() }, &["/bin/sh", "-c", script]);
    let said = "/bin/sh: can't create /file: Read-only file system\ny\n\
                /bin/sh: can't create /ro/file: Read-only file system\n";
    assert_eq!(running.finish(), (said.to_owned(), 0));
}

/// The work of programs is counted: a large sum, a difference and a bomb end, or are ended.
#[test]
fn sums_differences_and_compressed_bombs_are_bounded() {
    let script = "dd if=/dev/zero of=/z bs=1M count=60 2> /dev/null; md5sum /z";
    let (text, code) = start(environment(), &["sh", "-c", script]).finish();
    assert!(code == 137 || text.len() == 37, "{text} {code}");
    let script = "seq 20000 > /a; seq 20000 | tac > /b; diff /a /b | wc -l";
    assert_eq!(start(environment(), &["sh", "-c", script]).finish(), ("40003\n".to_owned(), 0));
    let script = "dd if=/dev/zero bs=1M count=10 2> /dev/null | gzip > /1.gz; cat /1.gz /1.gz /1.gz /1.gz > /4.gz; \
                  cat /4.gz /4.gz /4.gz /4.gz > /16.gz; zcat /16.gz | wc -c; echo after";
    let (text, code) = start(environment(), &["sh", "-c", script]).finish();
    assert!(code == 137, "160 MiB exceed the memory of a container: {text} {code}");
}

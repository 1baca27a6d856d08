//! Containers on this machine: what their programs see and may do, how they end, and that nothing of them is left. The test's own program
//! is the launcher. Where containers cannot be confined, the test says so and why, and passes.

use kstore_host_runtime::child::{ContainerEnd, ContainerStreams, RunningContainer};
use kstore_host_runtime::files::ProgramFolder;
use kstore_host_runtime::mapping::ImageMap;
use kstore_host_runtime::plan::{BindMount, ContainerPlan, StandardInput};
use kstore_host_runtime::resources::ResourceLimits;
use kstore_host_runtime::terminal::Terminal;
use kstore_host_runtime::{HostPrograms, MappedProgram, launcher};
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Sender;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::time::{sleep, timeout};

/// Longest wait for something that is about to happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// SIGTERM.
const TERM: i32 = 15;

/// The tests cannot run here, for this reason: a failure with `KSTORE_NEEDS_NAMESPACES`.
fn skipped(why: &str) -> ExitCode {
    println!("skipped: {why}");
    ExitCode::from(u8::from(std::env::var_os("KSTORE_NEEDS_NAMESPACES").is_some()))
}

fn main() -> ExitCode {
    if let Some(code) = std::env::args().nth(1).as_deref().and_then(launcher::run) {
        return code;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let programs = HostPrograms::new(ImageMap::default(), "/proc/self/exe".into(), dir.path());
    match programs.confinement() {
        Ok(how) => println!("containers: {how}"),
        Err(why) => {
            return skipped(why);
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tests = Containers { programs, dir: dir.path() };
    runtime.block_on(async {
        tests.a_program_has_its_arguments_its_variables_and_nothing_else().await;
        tests.a_program_sees_its_own_tree_and_processes_alone().await;
        tests.a_program_has_no_rights_over_its_namespaces().await;
        tests.volumes_show_new_files_at_once().await;
        tests.a_signal_reaches_the_program_and_its_code_is_the_containers().await;
        tests.a_program_that_cannot_be_executed_is_an_error_of_the_start().await;
        tests.other_commands_run_in_a_container().await;
        tests.a_program_has_the_limits_of_its_container().await;
        tests.usage_is_that_of_the_container_and_its_commands().await;
        tests.a_program_reads_what_it_is_sent_and_its_end().await;
        tests.a_program_with_a_terminal_controls_it().await;
        tests.a_container_of_an_image_sees_the_files_of_the_image_alone().await;
        tests.a_dropped_container_leaves_no_process().await;
    });
    let folder = tests.programs.folder().expect("there is one").container("pod", "c").expect("a name");
    assert!(folder.exists());
    drop(tests);
    assert!(!folder.exists(), "the files end with the process that made them");
    println!("13 tests passed");
    ExitCode::SUCCESS
}

struct Containers<'d> {
    programs: HostPrograms,
    dir: &'d Path,
}

/// How a container ended.
#[derive(Debug)]
struct Ended {
    code: u8,
    out: String,
    err: String,
}

/// Adds a file to an archive.
fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, bytes: &[u8], mode: u32) {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    archive.append_data(&mut header, name, bytes).expect("an entry");
}

/// A file in the first volume of a container.
fn running_file(plan: &ContainerPlan, name: &str) -> PathBuf {
    plan.mounts[0].source.join(name)
}

/// A running container without a terminal.
struct Running {
    stdin: Option<Sender>,
    stdout: ChildStdout,
    stderr: ChildStderr,
    end: ContainerEnd,
}

impl Containers<'_> {
    fn start(&self, name: &str, plan: &ContainerPlan) -> Running {
        let started = self.programs.start("pod", name, plan).expect("it starts");
        let RunningContainer { streams, end } = started.into_running().expect("it runs");
        let ContainerStreams::Pipes { stdin, stdout, stderr } = streams else { panic!("a terminal") };
        Running { stdin, stdout, stderr, end }
    }

    fn folder(&self) -> &ProgramFolder {
        self.programs.folder().expect("there are containers here")
    }

    /// Whether containers have the users that they ask for.
    fn has_ids(&self) -> bool {
        self.programs.confinement().is_ok_and(|how| how.contains("of their own"))
    }

    /// A container whose program is a shell script.
    fn plan(&self, script: &str) -> ContainerPlan {
        let program = self.dir.join("op");
        // Another process that is being started may have the file open: it is not overwritten, but replaced.
        let new = self.dir.join("op.new");
        std::fs::write(&new, format!("#!/bin/sh\n{script}\n")).expect("a script");
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        std::fs::rename(&new, &program).expect("a script");
        let env = [("PATH", "/usr/bin:/bin"), ("OWN", "a value")];
        ContainerPlan {
            program,
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            workdir: "/".to_owned(),
            hostname: "pod-0".to_owned(),
            ..ContainerPlan::default()
        }
    }

    async fn run(&self, plan: &ContainerPlan) -> Ended {
        let mut running = self.start("c", plan);
        let (mut out, mut err) = (String::new(), String::new());
        let all = async {
            let read = running.stdout.read_to_string(&mut out);
            let (one, other) = tokio::join!(read, running.stderr.read_to_string(&mut err));
            one.and(other).expect("text");
            running.end.exited().await
        };
        let code = timeout(PATIENCE, all).await.expect("it ends");
        Ended { code, out, err }
    }

    async fn script(&self, script: &str) -> Ended {
        self.run(&self.plan(script)).await
    }

    async fn a_program_has_its_arguments_its_variables_and_nothing_else(&self) {
        let mut plan =
            self.plan(r#"echo "$0 $@"; env | sort; pwd; hostname 2>/dev/null || uname -n; exit 3"#);
        plan.command = vec!["/manager".to_owned()];
        plan.args = vec!["--leader-elect".to_owned()];
        plan.workdir = "/work dir".to_owned();
        let ended = self.run(&plan).await;
        let expected = "/opt/bin/op --leader-elect\nOWN=a value\nPATH=/opt/bin:/usr/bin:/bin\nPWD=/work dir\n/work dir\npod-0\n";
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (3, expected, ""));
        plan.command = ["sh", "-c", "op; exit 4"].map(str::to_owned).to_vec();
        let ended = self.run(&plan).await;
        assert!(ended.code == 4 && ended.out.starts_with("/opt/bin/op \n"), "{ended:?}");
    }

    async fn a_program_sees_its_own_tree_and_processes_alone(&self) {
        let outside = self.dir.join("outside");
        std::fs::write(&outside, "secret").expect("a file");
        let script = format!(
            "cat {} 2>/dev/null; ls -A /root /home /run /mnt 2>/dev/null; cat /proc/1/comm; ls -d /proc/[0-9]* | wc -l; \
             ls /proc/self/fd | wc -l; ls /dev | tr '\\n' ' '; touch /tmp/x /var/tmp/x && echo writes",
            outside.display()
        );
        let ended = self.script(&script).await;
        let lines: Vec<_> =
            ended.out.lines().filter(|line| !line.is_empty() && !line.ends_with(':')).collect();
        assert_eq!(lines[0], "op", "{ended:?}");
        let processes: usize = lines[1].trim().parse().expect("a number");
        assert!(processes <= 4, "{ended:?}");
        // Three, and the folder that `ls` reads.
        assert_eq!(lines[2].trim(), "4", "{ended:?}");
        assert!(
            lines[3].starts_with("fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"),
            "{ended:?}"
        );
        assert!(ended.out.ends_with("writes\n") && !ended.out.contains("secret"), "{ended:?}");
    }

    async fn a_program_has_no_rights_over_its_namespaces(&self) {
        let script = "for command in 'mount -t tmpfs none /tmp' 'umount /usr' 'mount -o remount,rw /usr' 'touch /usr/x' \
                      'touch /etc/ssl/certs/x' 'hostname other' 'chroot /tmp' 'mknod /tmp/d b 8 0' 'sh -c \"echo 1 > /proc/sys/vm/swappiness\"'; do \
                      eval $command 2>/dev/null && echo \"$command\"; done; grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs' /proc/self/status";
        let ended = self.script(script).await;
        let lines: Vec<_> = ended.out.lines().collect();
        assert_eq!(lines.len(), 4, "{ended:?}");
        for name in ["CapPrm", "CapEff"] {
            assert!(
                lines.iter().any(|line| line.starts_with(name) && line.ends_with("\t0000000000000000")),
                "{ended:?}"
            );
        }
        assert!(ended.out.contains("NoNewPrivs:\t1"), "{ended:?}");
        let groups = self.script("id -G").await.out;
        assert!(groups == "0\n" || !self.has_ids(), "no group of the machine's root: {groups}");
        let mut plan = self.plan("id -u; touch /x || echo refused; touch /tmp/y || echo refused");
        (plan.user, plan.has_read_only_root) = ((65532, 65532), true);
        let ended = self.run(&plan).await;
        let user = if self.has_ids() { "65532" } else { "0" };
        assert_eq!(ended.out, format!("{user}\nrefused\nrefused\n"), "{ended:?}");
    }

    async fn volumes_show_new_files_at_once(&self) {
        let folder = self.folder();
        let (shown, written) = (folder.volume("pod", "shown"), folder.volume("pod", "written"));
        let (shown, written) = (shown.expect("a name"), written.expect("a name"));
        let publish = |name: &str, text: &str| {
            let file = kstore_host_runtime::files::VolumeFile {
                bytes: text.as_bytes().into(),
                mode: 0o600,
                user: 7,
                group: 7,
            };
            folder.publish(&shown, name, &[("text".to_owned(), file)].into()).expect("it is written");
        };
        publish("..1", "old");
        folder.make_volume(&written, None).expect("it is made");
        let bind = |source: &Path, target: &str, is_read_only: bool| BindMount {
            source: source.to_owned(),
            target: target.to_owned(),
            is_read_only,
        };
        let mut plan = self.plan(
            "cat /var/run/shown/text; touch /var/run/shown/x 2>/dev/null && echo written; echo > /data/ready\n\
             until grep -q new /var/run/shown/text; do :; done; echo; cat /var/run/shown/text",
        );
        plan.user = (7, 7);
        plan.mounts = vec![bind(&shown, "/var/run/shown", true), bind(&written, "/data", false)];
        let renew = async {
            timeout(PATIENCE, async {
                while !written.join("ready").exists() {
                    sleep(Duration::from_millis(1)).await;
                }
            })
            .await
            .expect("the program begins");
            publish("..2", "new");
        };
        let (ended, ()) = tokio::join!(self.run(&plan), renew);
        assert_eq!((ended.code, ended.out.as_str()), (0, "old\nnew"), "{ended:?}");
    }

    async fn a_signal_reaches_the_program_and_its_code_is_the_containers(&self) {
        let plan = self.plan("trap 'echo told; exit 5' TERM\necho ready\nwhile :; do sleep 0.01; done");
        let mut running = self.start("c", &plan);
        let mut begun = [0; 6];
        running.stdout.read_exact(&mut begun).await.expect("it prints");
        assert_eq!(&begun, b"ready\n");
        running.end.signal(TERM).await;
        let mut rest = String::new();
        timeout(PATIENCE, running.stdout.read_to_string(&mut rest)).await.expect("it ends").expect("text");
        assert_eq!((running.end.exited().await, rest.as_str()), (5, "told\n"));
        let ended = self.script("kill -9 $$; sh -c 'kill -9 $$'; exit $?").await;
        assert_eq!(ended.code, 137, "the first process has no default signals, its children do");
    }

    async fn a_program_that_cannot_be_executed_is_an_error_of_the_start(&self) {
        let mut plan = self.plan("true");
        std::fs::write(&plan.program, "#!/no/such/shell\n").expect("a script");
        let refused =
            |plan: &ContainerPlan| self.programs.start("pod", "c", plan).expect_err("it cannot").to_string();
        assert!(refused(&plan).starts_with("exec /opt/bin/op: No such file"), "{}", refused(&plan));
        plan.mounts.push(BindMount {
            source: self.dir.into(),
            target: "/usr/x".to_owned(),
            is_read_only: true,
        });
        assert!(refused(&plan).contains("cannot mount a volume at /usr/x"), "{}", refused(&plan));
    }

    async fn other_commands_run_in_a_container(&self) {
        let mut plan = self.plan("echo mine > /tmp/file; echo ready; while :; do sleep 0.01; done");
        (plan.workdir, plan.user) = ("/tmp".to_owned(), (7, 8));
        let refused = self.programs.command(("pod", "c"), &["true".to_owned()], false);
        assert_eq!(refused.expect_err("it does not run").to_string(), "the container does not run");
        let mut running = self.start("c", &plan);
        let mut begun = [0; 6];
        running.stdout.read_exact(&mut begun).await.expect("it prints");
        let run = async |line: &[&str]| {
            let argv: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            let mut command = self.programs.command(("pod", "c"), &argv, false).expect("the container runs");
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut child = child.expect("it starts");
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(b"typed").await.expect("it reads");
            drop(stdin);
            let ended =
                timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("its output");
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            (ended.status.code(), text(ended.stdout), text(ended.stderr))
        };
        let script = "cat file; cat; echo; echo $OWN; pwd; cat /proc/1/comm; ls /proc/self/fd | wc -l; id -u; kill -9 $$";
        let user = if self.has_ids() { "7" } else { "0" };
        let expected = format!("mine\ntyped\na value\n/tmp\nop\n4\n{user}\n");
        assert_eq!(run(&["sh", "-c", script]).await, (Some(137), expected, String::new()));
        let (code, _, err) = run(&["no-such-command"]).await;
        assert_eq!(
            (code, err.as_str()),
            (Some(127), "exec: \"no-such-command\": executable file not found in $PATH\n")
        );
        let (own, other) = Terminal::open().expect("a terminal");
        let argv =
            ["sh", "-c", "stty size; read line; echo \"got $line\"; tty -s && exit 9"].map(str::to_owned);
        let mut command = self.programs.command(("pod", "c"), &argv, true).expect("the container runs");
        own.resize(24, 100);
        let copy = || Stdio::from(other.try_clone().expect("a descriptor"));
        let mut child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("it starts");
        drop(command);
        drop(other);
        own.write_all(b"a line\n").await.expect("it is typed");
        let (mut shown, mut buffer) = (Vec::new(), [0; 1024]);
        while let Ok(count @ 1..) = timeout(PATIENCE, own.read(&mut buffer)).await.expect("it prints") {
            shown.extend_from_slice(&buffer[..count]);
        }
        let shown = String::from_utf8(shown).expect("text");
        assert!(shown.contains("24 100\r\n") && shown.ends_with("got a line\r\n"), "{shown:?}");
        assert_eq!(child.wait().await.expect("it ends").code(), Some(9));
    }

    async fn a_program_has_the_limits_of_its_container(&self) {
        let mut plan =
            self.plan("ulimit -n; ulimit -p; head -c 5000 /dev/zero >/tmp/x; echo $?; wc -c </tmp/x");
        plan.limits.ephemeral_storage = Some(4096);
        let ended = self.run(&plan).await;
        let lines: Vec<_> = ended.out.lines().collect();
        let open: u64 = lines[0].parse().expect("a number");
        assert!(open <= 65_536, "{ended:?}");
        // Where a control group counts them, the kernel's limit for users does not.
        let how = self.programs.enforcement().expect("there are containers here").to_string();
        assert!(lines[1] == "1024" || !how.contains("the kernel's limit"), "{how}: {ended:?}");
        // 128 + SIGXFSZ, or an error of a program that ignores it.
        assert!(matches!(lines[2], "153" | "1") && lines[3] == "4096", "{ended:?}");
        plan.limits = ResourceLimits { milli_cpu: Some(500), ..ResourceLimits::default() };
        let why = self.programs.enforcement().expect("there are containers here").unenforced(&plan.limits);
        assert_eq!(why.is_some(), how.contains("processors not at all"), "{how}");
    }

    async fn usage_is_that_of_the_container_and_its_commands(&self) {
        // `tail` keeps what it has read until the end of its input.
        let hold = "(head -c 40000000 /dev/zero; echo >&2; sleep 1000) | tail -c 50000000 >/dev/null";
        let plan = self.plan(&format!("{hold} & wait"));
        let mut running = self.start("used", &plan);
        running.stderr.read_exact(&mut [0]).await.expect("it prints");
        let argv = ["sh", "-c", hold].map(str::to_owned);
        let mut command = self.programs.command(("pod", "used"), &argv, false).expect("the container runs");
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let said = child.stderr.as_mut().expect("a pipe").read_exact(&mut [0]).await;
        said.expect("it prints");
        let used = async || {
            let all = self.programs.usage().await;
            all.get(&("pod".to_owned(), "used".to_owned())).copied()
        };
        let both = timeout(PATIENCE, async {
            loop {
                if let Some(used) = used().await.filter(|used| used.memory >= 80_000_000) {
                    return used;
                }
                sleep(Duration::from_millis(10)).await;
            }
        });
        let both = both.await.expect("the program and the command hold memory");
        assert!(both.cpu > Duration::ZERO && both.memory < 1_000_000_000, "{both:?}");
        drop(running);
        drop(child);
        timeout(PATIENCE, async {
            while used().await.is_some() {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("an ended container uses nothing");
    }

    async fn a_program_reads_what_it_is_sent_and_its_end(&self) {
        let mut plan = self.plan("read line; echo \"got $line\"; cat /dev/stdin; echo end; exit 6");
        (plan.input, plan.user) = (StandardInput::Pipe, (7, 8));
        let mut running = self.start("c", &plan);
        let mut stdin = running.stdin.take().expect("it was asked for");
        stdin.write_all(b"one\n").await.expect("it is sent");
        let mut begun = [0; 8];
        timeout(PATIENCE, running.stdout.read_exact(&mut begun)).await.expect("it reads").expect("text");
        assert_eq!(&begun, b"got one\n", "the program goes on before the end of its input");
        stdin.write_all(b"two\n").await.expect("it is sent");
        drop(stdin);
        let mut rest = String::new();
        timeout(PATIENCE, running.stdout.read_to_string(&mut rest)).await.expect("it ends").expect("text");
        assert_eq!((rest.as_str(), running.end.exited().await), ("two\nend\n", 6));
        let ended = self.script("cat; echo empty").await;
        assert_eq!(ended.out, "empty\n", "others have no input");
    }

    async fn a_program_with_a_terminal_controls_it(&self) {
        let mut plan = self.plan("stty size </dev/tty; read line; echo \"got $line\"; tty -s && exit 9");
        plan.input = StandardInput::Terminal;
        let started = self.programs.start("pod", "c", &plan).expect("it starts");
        let RunningContainer { streams, mut end } = started.into_running().expect("it runs");
        let ContainerStreams::Terminal(terminal) = streams else { panic!("no terminal") };
        terminal.write_all(b"a line\n").await.expect("it is typed");
        let (mut shown, mut buffer) = (Vec::new(), [0; 1024]);
        while let Ok(count @ 1..) = timeout(PATIENCE, terminal.read(&mut buffer)).await.expect("it prints") {
            shown.extend_from_slice(&buffer[..count]);
        }
        let shown = String::from_utf8(shown).expect("text");
        assert!(shown.contains("0 0\r\n") && shown.ends_with("got a line\r\n"), "{shown:?}");
        assert_eq!(end.exited().await, 9);
    }

    /// An archive of an image that has the shell of this machine, what it is linked to, and a link from `/var/run` to `/run`.
    fn image(&self) -> PathBuf {
        let linked = std::process::Command::new("ldd").arg("/bin/sh").output().expect("a list of libraries");
        let linked = String::from_utf8(linked.stdout).expect("text");
        let mut layer = tar::Builder::new(Vec::new());
        let files = linked.split_whitespace().filter(|word| word.starts_with('/')).chain(["/bin/sh"]);
        for path in files {
            let bytes = std::fs::read(path).expect("a file of this machine");
            append(&mut layer, path.trim_start_matches('/'), &bytes, 0o755);
        }
        append(&mut layer, "etc/passwd", b"root:x:0:0::/:\napp:x:1000:50::/:\n", 0o644);
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        link.set_mode(0o777);
        link.set_uid(0);
        link.set_gid(0);
        layer.append_link(&mut link, "var/run", "/run").expect("a link");
        let layer = layer.into_inner().expect("a layer");
        let digest: String = Sha256::digest(&layer).iter().map(|byte| format!("{byte:02x}")).collect();
        let config = format!(
            r#"{{"config": {{"User": "app", "Entrypoint": ["sh"], "Cmd": ["-c", "echo of the image"], "WorkingDir": "/w",
            "Env": ["A=1"]}}, "rootfs": {{"diff_ids": ["sha256:{digest}"]}}}}"#
        );
        let mut saved = tar::Builder::new(Vec::new());
        append(&mut saved, "layer.tar", &layer, 0o644);
        append(&mut saved, "config.json", config.as_bytes(), 0o644);
        let list = br#"[{"Config": "config.json", "Layers": ["layer.tar"]}]"#;
        append(&mut saved, "manifest.json", list, 0o644);
        let path = self.dir.join("saved.tar");
        std::fs::write(&path, saved.into_inner().expect("an archive")).expect("it is written");
        path
    }

    async fn a_container_of_an_image_sees_the_files_of_the_image_alone(&self) {
        let program = MappedProgram { path: self.image().into(), refusal: None };
        let image = self.programs.unpacked(&program).expect("it is unpacked").expect("it is an image");
        let volume = self.folder().volume("pod", "image").expect("a name");
        self.folder().make_volume(&volume, None).expect("it is made");
        std::fs::write(volume.join("file"), "of the volume\n").expect("a file");
        let mut plan = ContainerPlan {
            user: image.user().expect("it has the user"),
            env: image.config().variables(&[("PATH".to_owned(), "/bin".to_owned())], |_| true),
            workdir: image.config().workdir.clone(),
            image: Some(image),
            files: [("/etc/hosts".to_owned(), b"hosts\n".to_vec())].into(),
            mounts: vec![BindMount { source: volume, target: "/var/run/v".to_owned(), is_read_only: false }],
            ..ContainerPlan::default()
        };
        let ended = self.run(&plan).await;
        assert_eq!((ended.code, ended.out.as_str()), (0, "of the image\n"), "{ended:?}");
        // Nothing but the shell is there, so nothing else reads files.
        let script = "show() { while read -r line; do echo \"$line\"; done <$1; }
show /etc/hosts; show /run/v/file; echo \"$A $PWD\"; [ -e /usr/share ] || echo apart; echo >/run/v/ready
while read -r name value rest; do case $name in Uid:|CapEff:|CapPrm:|NoNewPrivs:) echo $name $value;; esac; done </proc/self/status
show /proc/1/comm; until [ -e /run/v/end ]; do :; done; exit 5";
        plan.args = vec!["-c".to_owned(), script.to_owned()];
        let mut running = self.start("image", &plan);
        let ready = async {
            while !running_file(&plan, "ready").exists() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, ready).await.expect("the program begins");
        let argv = ["sh", "-c", "echo $A $PWD; : >/run/v/end"].map(str::to_owned);
        let mut command = self.programs.command(("pod", "image"), &argv, false).expect("the container runs");
        let output = timeout(PATIENCE, command.output()).await.expect("it ends").expect("its output");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1 /w\n", "{output:?}");
        let mut out = String::new();
        timeout(PATIENCE, running.stdout.read_to_string(&mut out)).await.expect("it ends").expect("text");
        let user = if self.has_ids() { "1000" } else { "0" };
        let none = "0000000000000000";
        let expected = format!(
            "hosts\nof the volume\n1 /w\napart\nUid: {user}\nCapPrm: {none}\nCapEff: {none}\nNoNewPrivs: 1\nsh\n"
        );
        assert_eq!((out.as_str(), running.end.exited().await), (expected.as_str(), 5));
        plan.args = vec!["-c".to_owned(), "[ -e /run/x ] || echo new; : >/run/x".to_owned()];
        plan.user = (0, 0);
        for _ in 0..2 {
            assert_eq!(self.run(&plan).await.out, "new\n", "each start has the files of the image");
        }
        plan.command = vec!["/missing".to_owned()];
        let refused =
            self.programs.start("pod", "c", &plan).expect_err("there is no such program").to_string();
        assert!(refused.starts_with("exec /missing: No such file"), "{refused}");
    }

    async fn a_dropped_container_leaves_no_process(&self) {
        let mark = format!("mark-{}", std::process::id());
        let mut plan = self.plan(&format!("trap '' TERM\n(exec -a x sh -c 'sleep 1000; : {mark}') 2>/dev/null &\nsh -c 'sleep 1000; : {mark}' & sh -c 'sleep 1000; : {mark}' &\necho ready; wait"));
        plan.env.push(("MARK".to_owned(), mark.clone()));
        let mut running = self.start("c", &plan);
        let mut begun = [0; 6];
        running.stdout.read_exact(&mut begun).await.expect("it prints");
        let left = || {
            let all = std::fs::read_dir("/proc").expect("processes").flatten();
            all.filter(|entry| {
                let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                environment.windows(mark.len()).any(|part| part == mark.as_bytes())
            })
            .count()
        };
        assert!(left() >= 1, "the program and its children run");
        drop(running);
        timeout(PATIENCE, async {
            while left() > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .expect("all of its processes end");
    }
}

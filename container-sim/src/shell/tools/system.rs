//! Programs that ask the kernel: `mount`, which lists what is mounted, `df`, and `ip`, which changes nothing.

use super::{Outcome, Tool, ToolCall, plain};
use crate::limits::DISK_BYTES;
use crate::shell::env::Env;

pub(super) const TOOLS: &[Tool] = &[
    Tool { check: check_mount, ..plain("mount", mount) },
    plain("df", df),
    Tool { check: check_ip, ..plain("ip", ip) },
    Tool { check: check_sysctl, ..plain("sysctl", sysctl) },
];

/// `nnp` of the image `nonewprivs`, whose file has the bit `setuid` and belongs to root.
pub(super) static NNP: Tool = plain("nnp", |call| {
    let user = if call.env.no_new_privileges { call.env.user.user } else { 0 };
    Outcome::text(format!("Effective uid: {user}\n"))
});

/// The folder of the files of cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The types that `mount` is to list; an empty list is all of them. `None` if it is to do something else.
fn listed_types(arguments: &[String]) -> Option<Vec<&str>> {
    match arguments {
        [] => Some(Vec::new()),
        [flag, kinds] if flag == "-t" => Some(kinds.split(',').collect()),
        [flag] => Some(flag.strip_prefix("-t")?.split(',').collect()),
        _ => None,
    }
}

fn check_mount(arguments: &[String]) -> Result<(), String> {
    match listed_types(arguments) {
        Some(_) => Ok(()),
        None => Err("it only lists what is mounted: nothing is mounted in a simulated container".to_owned()),
    }
}

fn mount(call: &ToolCall<'_>) -> Outcome {
    let Some(types) = listed_types(call.arguments()) else {
        return Outcome::fail(1, "mount: permission denied (are you root?)\n".to_owned());
    };
    let all = mounts(call.env).into_iter().filter(|(_, _, kind, _)| types.is_empty() || types.contains(kind));
    let lines =
        all.map(|(device, path, kind, options)| format!("{device} on {path} type {kind} ({options})\n"));
    Outcome::text(lines.collect::<String>())
}

/// What is mounted: the device, the path, the type and the options.
fn mounts(env: &Env) -> Vec<(&'static str, String, &'static str, &'static str)> {
    let options = |path: &str| if env.read_only.contains(path) { "ro,relatime" } else { "rw,relatime" };
    let mut all = vec![("overlay", "/".to_owned(), "overlay", options("/"))];
    if env.files.keys().any(|path| path.starts_with(CGROUPS)) {
        all.push(("cgroup", CGROUPS.to_owned(), "cgroup2", "ro,nosuid,nodev,noexec,relatime"));
    }
    for path in env.volumes.keys() {
        let (device, kind) = match env.memory_mounts.contains(path) {
            true => ("tmpfs", "tmpfs"),
            false => ("/dev/vda1", "ext4"),
        };
        all.push((device, path.clone(), kind, options(path)));
    }
    all
}

/// How `df` shows sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SizeForm {
    Kilobytes,
    Megabytes,
    Human,
}

impl SizeForm {
    fn text(self, bytes: usize) -> String {
        match self {
            Self::Kilobytes => bytes.div_ceil(1024).to_string(),
            Self::Megabytes => bytes.div_ceil(1024 * 1024).to_string(),
            Self::Human if bytes == 0 => "0".to_owned(),
            Self::Human if bytes < 1024 * 1024 => format!("{:.1}K", bytes as f64 / 1024.0),
            Self::Human => format!("{:.1}M", bytes as f64 / (1024.0 * 1024.0)),
        }
    }
}

/// The disks of the container: all, or those of some paths. Each has the same size.
fn df(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), "hkmPTa", &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("df: {why}\n")),
    };
    let form = match (parsed.has('h'), parsed.has('m')) {
        (true, _) => SizeForm::Human,
        (false, true) => SizeForm::Megabytes,
        (false, false) => SizeForm::Kilobytes,
    };
    let size = match form {
        SizeForm::Human => "     Size      Used Available Use%",
        SizeForm::Megabytes => "1M-blocks      Used Available Use%",
        SizeForm::Kilobytes if parsed.has('P') => "1024-blocks    Used Available Capacity",
        SizeForm::Kilobytes => "1K-blocks      Used Available Use%",
    };
    let all: Vec<_> = mounts(call.env).into_iter().filter(|(_, _, kind, _)| *kind != "cgroup2").collect();
    let (mut shown, mut err) = (Vec::new(), String::new());
    for path in &parsed.operands {
        let full = call.env.resolved(&call.env.path(path));
        let is_there = full == "/" || call.env.is_folder(&full) || call.env.entry(&full).is_some();
        let holds = |mount: &str| mount == "/" || full == mount || full.starts_with(&format!("{mount}/"));
        match all.iter().filter(|(_, mount, ..)| holds(mount)).max_by_key(|(_, mount, ..)| mount.len()) {
            Some(mount) if is_there => shown.push(mount),
            _ => err.push_str(&format!("df: {path}: can't find mount point\n")),
        }
    }
    if parsed.operands.is_empty() {
        shown.extend(&all);
    }
    let mut text = format!("Filesystem           {size} Mounted on\n");
    for (device, path, ..) in shown {
        let disk = call.env.volumes.get(path).unwrap_or(&call.env.disk);
        let used = disk.used();
        let (total, free) = (form.text(DISK_BYTES), form.text(DISK_BYTES.saturating_sub(used)));
        let percent = (100 * used).div_ceil(DISK_BYTES);
        text.push_str(&format!(
            "{device:<20} {total:>9} {:>9} {free:>9} {percent:>3}% {path}\n",
            form.text(used)
        ));
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::text(text) }
}

/// Whether a command of `ip` would change the network.
fn changes(arguments: &[String]) -> bool {
    let mut words = arguments.iter().filter(|word| !word.starts_with('-'));
    let object =
        words.next().is_some_and(|word| matches!(word.as_str(), "link" | "addr" | "address" | "route"));
    object && words.next().is_some_and(|word| matches!(word.as_str(), "add" | "del" | "delete" | "set"))
}

fn check_ip(arguments: &[String]) -> Result<(), String> {
    match changes(arguments) {
        true => Ok(()),
        false => Err("it shows no interfaces: only the refusal of a change is simulated".to_owned()),
    }
}

/// No simulated container may change its network, a privileged one neither.
fn ip(call: &ToolCall<'_>) -> Outcome {
    match changes(call.arguments()) {
        true => Outcome::fail(2, "ip: RTNETLINK answers: Operation not permitted\n".to_owned()),
        false => Outcome::fail(1, "ip: interfaces of simulated containers are not shown\n".to_owned()),
    }
}

/// `sysctl` reads, and does not set.
fn check_sysctl(arguments: &[String]) -> Result<(), String> {
    match arguments
        .iter()
        .any(|word| word.contains('=') || matches!(word.as_str(), "-w" | "-p" | "-a" | "-A"))
    {
        true => Err("it only shows single parameters".to_owned()),
        false => Ok(()),
    }
}

/// The parameters of the kernel that the pod sets; the others are not known.
fn sysctl(call: &ToolCall<'_>) -> Outcome {
    let has_flag =
        |flag: char| call.arguments().iter().any(|word| word.starts_with('-') && word.contains(flag));
    let (mut out, mut err) = (String::new(), String::new());
    for name in call.arguments().iter().filter(|word| !word.starts_with('-')) {
        let name = name.replace('/', ".");
        match call.env.read(&format!("/proc/sys/{}", name.replace('.', "/"))) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let text = text.trim_end();
                out.push_str(&if has_flag('n') { format!("{text}\n") } else { format!("{name} = {text}\n") });
            }
            Err(_) if has_flag('e') => {}
            Err(_) => err.push_str(&format!("sysctl: error: '{name}' is an unknown key\n")),
        }
    }
    let code = u8::from(!err.is_empty());
    Outcome { err, code, ..Outcome::text(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{Disk, DiskCapacity, Environment};
    use std::sync::Arc;

    #[test]
    fn a_program_of_root_has_its_privileges_unless_the_container_forbids_it() {
        for (no_new_privileges, text) in [(false, "Effective uid: 0\n"), (true, "Effective uid: 1000\n")] {
            let user = crate::shell::User { user: 1000, ..Default::default() };
            let env = Env::new(&Arc::new(Environment { user, no_new_privileges, ..Environment::default() }));
            let super::super::Runner::Whole(run) = NNP.run else { panic!("it reads no input") };
            let outcome = run(&ToolCall { env: &env, argv: &["/nnp".to_owned()], input: b"" });
            let super::super::Output::Small(out) = outcome.out else { panic!("its output is short") };
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn mounts_are_listed_by_type_and_with_the_cgroup_of_the_container() {
        let disk = || Disk::new(DiskCapacity::default());
        let paths = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
        let env = Env::new(&Arc::new(Environment {
            files: [("/sys/fs/cgroup/cpu.max", "max 100000\n"), ("/proc/sys/kernel/shm_rmid_forced", "1\n")]
                .map(|(path, text)| (path.to_owned(), Arc::from(text.as_bytes())))
                .into(),
            volumes: [("/data".to_owned(), disk()), ("/secret".to_owned(), disk())].into(),
            memory_mounts: paths(&["/secret"]),
            read_only: paths(&["/secret"]),
            ..Environment::default()
        }));
        let run = |words: &str| {
            let argv: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let call = ToolCall { env: &env, argv: &argv, input: b"" };
            let outcome = match argv[0].as_str() {
                "mount" => mount(&call),
                "ip" => ip(&call),
                "df" => df(&call),
                _ => sysctl(&call),
            };
            let super::super::Output::Small(out) = outcome.out else { panic!("{words}") };
            (String::from_utf8(out).unwrap(), outcome.err, outcome.code)
        };
        let cgroup = "cgroup on /sys/fs/cgroup type cgroup2 (ro,nosuid,nodev,noexec,relatime)\n";
        assert_eq!(run("mount -t cgroup2"), (cgroup.to_owned(), String::new(), 0));
        let all = format!(
            "overlay on / type overlay (rw,relatime)\n{cgroup}/dev/vda1 on /data type ext4 (rw,relatime)\n\
             tmpfs on /secret type tmpfs (ro,relatime)\n"
        );
        assert_eq!(run("mount"), (all, String::new(), 0));
        assert_eq!(run("mount -t proc").0, "");
        let head = "Filesystem           1K-blocks      Used Available Use% Mounted on\n";
        let line =
            |device: &str, path: &str| format!("{device:<20}     65536         0     65536   0% {path}\n");
        let rows = [line("overlay", "/"), line("/dev/vda1", "/data"), line("tmpfs", "/secret")].concat();
        assert_eq!(run("df").0, format!("{head}{rows}"));
        assert_eq!(run("df /data").0, format!("{head}{}", line("/dev/vda1", "/data")));
        assert_eq!(
            run("df -h /").0.lines().nth(1),
            Some("overlay                  64.0M         0     64.0M   0% /")
        );
        assert_eq!(
            run("df /nosuch"),
            (head.to_owned(), "df: /nosuch: can't find mount point\n".to_owned(), 1)
        );
        assert_eq!(run("mount /dev/x /mnt").2, 1);
        let refusal = "ip: RTNETLINK answers: Operation not permitted\n";
        assert_eq!(run("ip link add dummy0 type dummy"), (String::new(), refusal.to_owned(), 2));
        assert_eq!(run("ip -4 addr add 10.0.0.1/24 dev eth0").2, 2);
        assert_eq!(run("sysctl kernel.shm_rmid_forced").0, "kernel.shm_rmid_forced = 1\n");
        assert_eq!(run("sysctl -n kernel/shm_rmid_forced").0, "1\n");
        let unknown = "sysctl: error: 'kernel.x' is an unknown key\n";
        assert_eq!(run("sysctl kernel.x"), (String::new(), unknown.to_owned(), 1));
        assert!(check_sysctl(&["kernel.x=1".to_owned()]).is_err());
        assert!(check_ip(&["link".to_owned()]).is_err() && check_mount(&["/a".to_owned()]).is_err());
    }
}

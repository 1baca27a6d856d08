//! What a container of a mapped image runs and which files it sees: a minimal tree of its own, the folders of this machine by which
//! programs start, the program, and the volumes. Where the image is unpacked, its files instead. Pure.

use crate::image::UnpackedImage;
use crate::namespace::NetworkNamespace;
use crate::resources::ResourceLimits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of the program in its container. It comes first in `PATH`.
const PROGRAM_FOLDER: &str = "/opt/bin";
/// The shell of this machine, which containers run whose command is a shell.
const SHELL: &str = "/bin/sh";
/// Names of shells in the command of a container.
const SHELLS: [&str; 4] = ["sh", "bash", "/bin/sh", "/bin/bash"];
/// Devices of this machine that every container has.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// What a container sees of this machine, read-only: what it takes to start programs that are linked dynamically, scripts, and to trust the
/// authorities of the machine.
pub const MACHINE_PATHS: [&str; 14] = [
    "/bin",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/pki",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/lib",
    "/lib32",
    "/lib64",
    "/sbin",
    "/usr",
    "/libx32",
];

/// The standard input of a container's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StandardInput {
    /// It is at its end at once.
    #[default]
    Empty,
    /// A pipe that this process writes to.
    Pipe,
    /// A terminal, which is its standard output and error as well.
    Terminal,
}

/// A container of a mapped image.
#[derive(Clone, Debug, Default)]
pub struct ContainerPlan {
    /// The program on this machine. Without effect with an unpacked image.
    pub program: PathBuf,
    /// The image whose files it sees, instead of those of this machine; `None`: its image is a program.
    pub image: Option<Arc<UnpackedImage>>,
    /// The container's `command`, with its variables replaced.
    pub command: Vec<String>,
    /// The container's `args`, with their variables replaced.
    pub args: Vec<String>,
    /// All environment variables; nothing of this process is added.
    pub env: Vec<(String, String)>,
    /// The working directory, which is made if it is missing.
    pub workdir: String,
    /// The name of the host in the container.
    pub hostname: String,
    /// The user and its group.
    pub user: (u32, u32),
    /// Whether the container may write only to its volumes and `/dev/shm`.
    pub has_read_only_root: bool,
    /// Files that the kubelet manages, by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Volumes, and the file of the termination message.
    pub mounts: Vec<BindMount>,
    /// What it may use.
    pub limits: ResourceLimits,
    /// Where its input comes from.
    pub input: StandardInput,
    /// The network of its pod; `None`: that of this machine.
    pub network: Option<Arc<NetworkNamespace>>,
}

/// A file or folder of this machine that a container sees at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindMount {
    /// The path on this machine.
    pub source: PathBuf,
    /// The absolute path in the container.
    pub target: String,
    /// Whether the container cannot write there.
    pub is_read_only: bool,
}

/// A path of [`MACHINE_PATHS`] as it is on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePath {
    /// The path.
    pub path: &'static str,
    /// Where it leads, if it is a symbolic link.
    pub link: Option<String>,
}

/// What is at a path of a container's own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// A folder with these permission bits.
    Folder(u32),
    /// A file that everybody may read.
    File(Vec<u8>),
    /// A symbolic link.
    Link(String),
}

/// The files of a container: its own tree, and what is mounted over it, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The container's own tree. Folders above an entry are made as needed.
    pub entries: BTreeMap<String, TreeEntry>,
    /// The mounts; none is above an earlier one.
    pub binds: Vec<BindMount>,
}

/// The command line of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The path of the program in the container.
    pub program: String,
    /// The arguments, the program's name first.
    pub argv: Vec<String>,
}

/// Why a container cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A volume is mounted where the container sees this machine.
    #[error(
        "cannot mount a volume at {target}: a host program sees {machine} of this machine there; mount it elsewhere"
    )]
    OverMachine {
        /// The path in the container.
        target: String,
        /// The path of this machine.
        machine: &'static str,
    },
    /// A volume is mounted at the root.
    #[error("cannot mount a volume at the root of a host program's files")]
    OverRoot,
    /// Neither the container nor its image has a command.
    #[error("no command specified")]
    NoCommand,
}

/// The command line of a container, and its variables.
///
/// # Errors
/// It has none.
pub(crate) fn process(plan: &ContainerPlan) -> Result<(CommandLine, Vec<(String, String)>), PlanError> {
    match &plan.image {
        None => Ok((command_line(&plan.program, &plan.command, &plan.args), variables(&plan.env))),
        Some(image) => {
            let argv = image.config().command_line(&plan.command, &plan.args);
            let program = argv.first().cloned().ok_or(PlanError::NoCommand)?;
            Ok((CommandLine { program, argv }, plan.env.clone()))
        }
    }
}

/// The command line of a container: its image's entrypoint is the program, whatever the first word of its command is. A command that begins
/// with a shell runs the shell of this machine.
pub fn command_line(program: &Path, command: &[String], args: &[String]) -> CommandLine {
    let own = program_path(program);
    let (path, name, rest) = match command {
        [] => (own.clone(), own, &[][..]),
        [shell, rest @ ..] if SHELLS.contains(&shell.as_str()) => (SHELL.to_owned(), shell.clone(), rest),
        [name, rest @ ..] => (own, name.clone(), rest),
    };
    let argv = std::iter::once(name).chain(rest.iter().chain(args).cloned());
    CommandLine { program: path, argv: argv.collect() }
}

/// The path of a program in its container.
fn program_path(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    format!("{PROGRAM_FOLDER}/{name}")
}

/// The variables of a container, with the folder of its program first in `PATH`.
pub fn variables(env: &[(String, String)]) -> Vec<(String, String)> {
    let changed = |(name, value): &(String, String)| match name.as_str() {
        "PATH" => (name.clone(), format!("{PROGRAM_FOLDER}:{value}")),
        _ => (name.clone(), value.clone()),
    };
    env.iter().map(changed).collect()
}

/// The files of a container on a machine with these paths.
///
/// # Errors
/// A volume is mounted where none can be.
pub fn layout(plan: &ContainerPlan, machine: &[MachinePath]) -> Result<Layout, PlanError> {
    let mut layout = Layout { entries: own_tree(plan), binds: Vec::new() };
    // What would be below a path of the machine is hidden by it; a link of the machine must not lead its maker elsewhere.
    layout.entries.retain(|path, _| !machine.iter().any(|over| is_within(path, over.path)));
    for MachinePath { path, link } in machine {
        match link {
            Some(to) => drop(layout.entries.insert((*path).to_owned(), TreeEntry::Link(to.clone()))),
            None => layout.binds.push(bind(Path::new(path), path, true)),
        }
    }
    layout.binds.extend(devices());
    let program = program_path(&plan.program);
    layout.binds.push(bind(&plan.program, &program, true));
    let mut mounts = Vec::new();
    for mount in &plan.mounts {
        let target = normal(&mount.target);
        if target == "/" {
            return Err(PlanError::OverRoot);
        }
        if let Some(over) = machine.iter().find(|over| is_within(&target, over.path)) {
            return Err(PlanError::OverMachine { target, machine: over.path });
        }
        mounts.push(BindMount { target, ..mount.clone() });
    }
    // A path is sorted behind those above it, so a mount never hides an earlier one.
    mounts.sort_by(|one, other| one.target.cmp(&other.target));
    // The command's own name leads to the program, for commands that are executed in the container later.
    let named = plan.command.first().filter(|name| name.starts_with('/')).map(|name| normal(name));
    if let Some(name) = named.filter(|name| !SHELLS.contains(&name.as_str()) && name != "/") {
        let is_taken = layout.entries.contains_key(&name)
            || machine.iter().any(|over| is_within(&name, over.path))
            || mounts.iter().any(|mount| is_within(&name, &mount.target) || is_within(&mount.target, &name))
            || layout.binds.iter().any(|bind| bind.target == name);
        if !is_taken {
            layout.entries.insert(name, TreeEntry::Link(program));
        }
    }
    layout.binds.extend(mounts);
    Ok(layout)
}

/// The files of a container of an unpacked image, over those of the image. `place` says where a path leads by the image's links.
///
/// # Errors
/// A volume is mounted at the root.
pub(crate) fn image_layout(
    plan: &ContainerPlan,
    place: &dyn Fn(&str) -> String,
) -> Result<Layout, PlanError> {
    let mut entries = kernel_tree();
    entries.extend(plan.files.iter().map(|(path, bytes)| (normal(path), TreeEntry::File(bytes.clone()))));
    entries.entry(normal(&plan.workdir)).or_insert(TreeEntry::Folder(0o755));
    let placed = entries.into_iter().map(|(path, entry)| match entry {
        // A link of the image in the place of one of these goes.
        TreeEntry::Link(_) => (path, entry),
        TreeEntry::Folder(_) | TreeEntry::File(_) => (place(&path), entry),
    });
    let mut layout = Layout { entries: placed.collect(), binds: devices().collect() };
    layout.entries.remove("/");
    let mut mounts = Vec::new();
    for mount in &plan.mounts {
        let target = place(&normal(&mount.target));
        if target == "/" {
            return Err(PlanError::OverRoot);
        }
        mounts.push(BindMount { target, ..mount.clone() });
    }
    mounts.sort_by(|one, other| one.target.cmp(&other.target));
    layout.binds.extend(mounts);
    Ok(layout)
}

/// The devices of this machine that a container has.
fn devices() -> impl Iterator<Item = BindMount> {
    DEVICES.into_iter().map(|device| {
        let path = format!("/dev/{device}");
        bind(Path::new(&path), &path, false)
    })
}

/// The folders and links of the kernel's files, which every container has.
fn kernel_tree() -> BTreeMap<String, TreeEntry> {
    let folders = ["/dev/pts", "/dev/shm", "/proc", "/sys"];
    let mut entries: BTreeMap<String, TreeEntry> =
        folders.into_iter().map(|folder| (folder.to_owned(), TreeEntry::Folder(0o755))).collect();
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("ptmx", "pts/ptmx"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        entries.insert(format!("/dev/{name}"), TreeEntry::Link(to.to_owned()));
    }
    entries
}

/// The tree of a container without its mounts.
fn own_tree(plan: &ContainerPlan) -> BTreeMap<String, TreeEntry> {
    let mut entries = kernel_tree();
    for folder in ["/etc", "/home", "/run", "/var/log", "/var/run"] {
        entries.insert(folder.to_owned(), TreeEntry::Folder(0o755));
    }
    for folder in ["/tmp", "/var/tmp"] {
        entries.insert(folder.to_owned(), TreeEntry::Folder(0o1777));
    }
    entries.insert("/root".to_owned(), TreeEntry::Folder(0o700));
    let (user, group) = plan.user;
    let mut users = vec![("root", 0, 0, "/root")];
    if user != 0 {
        users.push(("user", user, group, "/"));
    }
    let line = |(name, user, group, home): &(&str, u32, u32, &str)| {
        format!("{name}:x:{user}:{group}:{name}:{home}:{SHELL}\n")
    };
    let passwd: String = users.iter().map(line).collect();
    let groups: String = users.iter().map(|(name, _, group, _)| format!("{name}:x:{group}:\n")).collect();
    let texts = [
        ("/etc/passwd", passwd),
        ("/etc/group", groups),
        ("/etc/nsswitch.conf", "hosts: files dns\n".to_owned()),
    ];
    entries.extend(texts.map(|(path, text)| (path.to_owned(), TreeEntry::File(text.into_bytes()))));
    entries.extend(plan.files.iter().map(|(path, bytes)| (normal(path), TreeEntry::File(bytes.clone()))));
    entries.entry(normal(&plan.workdir)).or_insert(TreeEntry::Folder(0o777));
    entries.remove("/");
    entries
}

fn bind(source: &Path, target: &str, is_read_only: bool) -> BindMount {
    BindMount { source: source.to_owned(), target: target.to_owned(), is_read_only }
}

/// An absolute path without empty parts, `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Whether `path` is `folder` or below it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The path on this machine at which `target` is mounted: in the container's own tree at `root`, or in the mount that is above it.
pub(crate) fn mount_point(root: &Path, before: &[BindMount], target: &str) -> PathBuf {
    let above = before.iter().rev().find(|bind| is_within(target, &bind.target));
    let (base, rest) = match above {
        Some(bind) => (bind.source.as_path(), &target[bind.target.len()..]),
        None => (root, target),
    };
    match rest.trim_start_matches('/') {
        "" => base.to_owned(),
        rest => base.join(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_program_is_the_entrypoint_whatever_the_command_is_called() {
        for (command, args, path, argv) in [
            ("", "", "/opt/bin/op", "/opt/bin/op"),
            ("", "--leader-elect", "/opt/bin/op", "/opt/bin/op --leader-elect"),
            ("/manager", "", "/opt/bin/op", "/manager"),
            ("/manager --v=2", "--x", "/opt/bin/op", "/manager --v=2 --x"),
            ("sh -c", "op;date", "/bin/sh", "sh -c op;date"),
            ("/bin/bash -c op", "", "/bin/sh", "/bin/bash -c op"),
        ] {
            let line = command_line(Path::new("/work/target/op"), &words(command), &words(args));
            assert_eq!((line.program.as_str(), line.argv), (path, words(argv)), "{command:?} {args:?}");
        }
    }

    fn machine() -> Vec<MachinePath> {
        vec![
            MachinePath { path: "/bin", link: Some("usr/bin".to_owned()) },
            MachinePath { path: "/usr", link: None },
        ]
    }

    fn plan(command: &str, mounts: &[&str]) -> ContainerPlan {
        let mounts = mounts.iter().map(|target| bind(Path::new("/volumes/v"), target, false));
        ContainerPlan {
            program: "/work/op".into(),
            command: words(command),
            workdir: "/app".to_owned(),
            user: (65532, 0),
            files: BTreeMap::from([("/etc/hosts".to_owned(), b"hosts".to_vec())]),
            mounts: mounts.collect(),
            ..ContainerPlan::default()
        }
    }

    #[test]
    fn a_container_sees_the_machine_read_only_and_its_volumes_over_its_own_tree() {
        let layout =
            layout(&plan("/manager", &["/data/in//", "/data", "/var/run/../run/x"]), &machine()).unwrap();
        let targets: Vec<_> =
            layout.binds.iter().map(|bind| (bind.target.as_str(), bind.is_read_only)).collect();
        assert_eq!(targets[0], ("/usr", true));
        assert_eq!(
            targets[7..],
            [("/opt/bin/op", true), ("/data", false), ("/data/in", false), ("/var/run/x", false)]
        );
        assert_eq!(layout.entries["/bin"], TreeEntry::Link("usr/bin".to_owned()));
        assert_eq!(layout.entries["/manager"], TreeEntry::Link("/opt/bin/op".to_owned()));
        assert_eq!(layout.entries["/app"], TreeEntry::Folder(0o777));
        assert_eq!(layout.entries["/etc/hosts"], TreeEntry::File(b"hosts".to_vec()));
        let TreeEntry::File(passwd) = &layout.entries["/etc/passwd"] else { panic!("not a file") };
        assert!(String::from_utf8_lossy(passwd).contains("user:x:65532:0:"));
    }

    #[test]
    fn what_a_container_of_an_image_gets_is_where_the_links_of_the_image_lead() {
        let place = |path: &str| path.replace("/var/run", "/run");
        let layout = image_layout(&plan("", &["/var/run/secrets", "/usr/x"]), &place).unwrap();
        let targets: Vec<_> = layout.binds[DEVICES.len()..].iter().map(|bind| bind.target.as_str()).collect();
        assert_eq!(targets, ["/run/secrets", "/usr/x"]);
        assert_eq!(layout.entries["/app"], TreeEntry::Folder(0o755));
        assert_eq!(layout.entries["/etc/hosts"], TreeEntry::File(b"hosts".to_vec()));
        assert!(!layout.entries.contains_key("/etc/passwd"), "users are those of the image");
        let over_root = image_layout(&plan("", &["/var/run"]), &|_| "/".to_owned());
        assert_eq!(over_root.unwrap_err(), PlanError::OverRoot);
        let image = plan("", &[]);
        assert_eq!(process(&image).unwrap().0.program, "/opt/bin/op");
    }

    #[test]
    fn volumes_are_not_mounted_over_the_machine_or_the_root() {
        let refused = |target: &str| layout(&plan("", &[target]), &machine()).unwrap_err();
        let over = |target: &str, machine| PlanError::OverMachine { target: target.to_owned(), machine };
        assert_eq!(refused("/usr/share/x"), over("/usr/share/x", "/usr"));
        assert_eq!(refused("/bin"), over("/bin", "/bin"));
        assert_eq!(refused("/a/.."), PlanError::OverRoot);
        assert!(layout(&plan("", &["/usrx"]), &machine()).is_ok());
        for (command, is_linked) in
            [("/usr/bin/op", false), ("/data/op", false), ("op", false), ("/bin/sh", false)]
        {
            let layout = layout(&plan(command, &["/data"]), &machine()).unwrap();
            assert_eq!(layout.entries.contains_key(command), is_linked, "{command}");
        }
    }

    #[test]
    fn a_mount_below_another_is_made_in_its_source() {
        let binds =
            [bind(Path::new("/volumes/a"), "/data", false), bind(Path::new("/volumes/b"), "/data/in", false)];
        let at = |target: &str| mount_point(Path::new("/root"), &binds, target);
        assert_eq!(at("/other/x"), Path::new("/root/other/x"));
        assert_eq!(at("/data/y"), Path::new("/volumes/a/y"));
        assert_eq!(at("/data/in/y/z"), Path::new("/volumes/b/y/z"));
        assert_eq!(at("/database"), Path::new("/root/database"));
    }

    #[test]
    fn the_folder_of_the_program_comes_first_in_the_path() {
        let env = [("A".to_owned(), "1".to_owned()), ("PATH".to_owned(), "/usr/bin".to_owned())];
        assert_eq!(variables(&env)[1].1, "/opt/bin:/usr/bin");
    }
}

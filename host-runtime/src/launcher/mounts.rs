//! The mounts of a container, made in its mount namespace by the process that supervises it. All but those that need the container's first
//! process: `init` has them.

use super::supervisor::cannot;
use crate::launch::LaunchRequest;
use rustix_namespaces::mount::{
    MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_recursive_bind, mount_remount,
};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};

/// The mounts of this process's namespace.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Mounts the container's own tree at its root, and everything that it sees over it.
pub(super) fn container(request: &LaunchRequest) -> Result<()> {
    // Mounts of the machine must not come into the container, nor the reverse.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(cannot("private mounts"))?;
    let root = &request.root;
    mount_bind(root, root).map_err(cannot("the root"))?;
    for bind in &request.binds {
        let target = root.join(bind.target.trim_start_matches('/'));
        mount_recursive_bind(&bind.source, &target).map_err(cannot(&format!(
            "mount {} at {}",
            bind.source.display(),
            bind.target
        )))?;
        if bind.is_read_only {
            read_only(&target).map_err(|error| {
                Error::new(error.kind(), format!("mount {} read-only: {error}", bind.target))
            })?;
        }
    }
    if request.has_read_only_root {
        read_only_alone(root, &mounted()?)?;
    }
    Ok(())
}

/// Makes a mount read-only, and all that came with it.
pub(super) fn read_only(target: &Path) -> Result<()> {
    let all = mounted()?;
    // The path in the list has no links.
    let target = target.canonicalize()?;
    for (path, _) in all.iter().filter(|(path, _)| path.starts_with(&target)) {
        read_only_alone(path, &all)?;
    }
    Ok(())
}

/// Makes one mount read-only. Flags that it has already stay: in a user namespace they cannot be taken away.
fn read_only_alone(target: &Path, all: &[(PathBuf, MountFlags)]) -> Result<()> {
    let known = all.iter().rev().find(|(path, _)| path == target).map(|(_, flags)| *flags);
    let flags = known.unwrap_or_else(MountFlags::empty) | MountFlags::BIND | MountFlags::RDONLY;
    mount_remount(target, flags, "").map_err(Error::from)
}

/// The mounts with their flags, in the order in which they were made.
fn mounted() -> Result<Vec<(PathBuf, MountFlags)>> {
    Ok(parse(&std::fs::read_to_string(MOUNTS)?))
}

/// Reads a list of mounts: the fifth word of a line is the path, the sixth has the flags.
fn parse(text: &str) -> Vec<(PathBuf, MountFlags)> {
    let line = |line: &str| {
        let mut words = line.split(' ').skip(4);
        Some((PathBuf::from(unescaped(words.next()?)), flags(words.next()?)))
    };
    text.lines().filter_map(line).collect()
}

/// A path without the escapes for blanks and backslashes.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part
            .split_at_checked(3)
            .and_then(|(code, rest)| Some((u8::from_str_radix(code, 8).ok()?, rest)))
        {
            Some((code, rest)) => {
                text.push(char::from(code));
                text.push_str(rest);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

fn flags(words: &str) -> MountFlags {
    let flag = |word: &str| match word {
        "ro" => MountFlags::RDONLY,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "nosymfollow" => MountFlags::NOSYMFOLLOW,
        _ => MountFlags::empty(),
    };
    words.split(',').map(flag).fold(MountFlags::empty(), |all, one| all | one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_mounts_is_read_with_its_escapes_and_flags() {
        let text = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                    28 27 0:25 / /a\\040b\\134c ro,nosuid,nodev,noexec,noatime shared:1 - tmpfs none ro\nbad line\n";
        let all = parse(text);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], (PathBuf::from("/proc"), MountFlags::RELATIME));
        let expected = [
            MountFlags::RDONLY,
            MountFlags::NOSUID,
            MountFlags::NODEV,
            MountFlags::NOEXEC,
            MountFlags::NOATIME,
        ];
        assert_eq!(
            all[1],
            (PathBuf::from("/a b\\c"), expected.into_iter().fold(MountFlags::empty(), |a, b| a | b))
        );
    }
}

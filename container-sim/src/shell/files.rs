//! The file system of a container as its programs see it: folders that every container has, mounted files, volumes, and
//! the container's own [`Disk`]. Links are resolved here.

use super::disk::{Content, Disk, DiskEntry};
use super::env::Env;
use super::work::PATH_WORK;
use crate::limits::{DISK_BYTES, PATH_BYTES};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Folders that every container has.
const FOLDERS: [&str; 18] = [
    "/bin", "/dev", "/etc", "/home", "/lib", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv",
    "/sys", "/tmp", "/usr", "/usr/bin", "/var", "/var/log",
];
/// Devices that discard writes and read as empty.
const NOWHERE: [&str; 2] = ["/dev/null", "/dev/zero"];
/// Links that are followed for one path; a longer chain is not resolved, since it may be a cycle.
const LINKS: usize = 8;

/// Why an operation on a path fails, in the texts of libc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileError {
    #[error("No such file or directory")]
    Missing,
    #[error("Is a directory")]
    Folder,
    #[error("Not a directory")]
    NoFolder,
    #[error("File exists")]
    Exists,
    #[error("Directory not empty")]
    NotEmpty,
    #[error("Read-only file system")]
    ReadOnly,
    #[error("File name too long")]
    TooLong,
    #[error("Permission denied")]
    Denied,
    #[error("Operation not permitted")]
    NotOwner,
    #[error("Device or resource busy")]
    Busy,
    #[error("{0}")]
    Full(#[from] super::disk::DiskFull),
}

/// The parent folder of a path.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent })
}

fn is_within(path: &str, folder: &str) -> bool {
    folder == "/" || path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl Env {
    /// Whether the command may go on. Programs with many arguments ask before each.
    pub(super) fn runs(&self) -> bool {
        self.work.killed().is_none()
    }

    /// The absolute path for a path that a program got as an argument.
    pub(super) fn path(&self, path: &str) -> String {
        self.path_in(&self.workdir, path)
    }

    /// The absolute path for a path relative to `folder`. Links in its folders are followed; a link at its end is not.
    pub(super) fn path_in(&self, folder: &str, path: &str) -> String {
        let path = absolute(folder, path);
        let (above, name) = path.rsplit_once('/').expect("it is absolute");
        let above =
            above.split('/').fold("/".to_owned(), |above, part| self.resolved(&absolute(&above, part)));
        absolute(&above, name)
    }

    /// The disk that stores a path, and the path on that disk.
    fn disk_of<'a>(&'a self, path: &'a str) -> (&'a Disk, &'a str) {
        let mounts = self.volumes.iter().rev().filter(|(folder, _)| is_within(path, folder));
        match mounts.max_by_key(|(folder, _)| folder.len()) {
            Some((folder, disk)) => (disk, &path[folder.len()..]),
            None => (&self.disk, path),
        }
    }

    /// The entry at a path. Links are not followed.
    pub(super) fn entry(&self, path: &str) -> Option<DiskEntry> {
        if !self.work.spend(PATH_WORK + path.len() + 4 * (self.files.len() + self.volumes.len())) {
            return None;
        }
        let (disk, name) = self.disk_of(path);
        if let Some(bytes) = self.files.get(path) {
            let content = Content::File(Arc::clone(bytes));
            return Some(DiskEntry { content, ..DiskEntry::file(b"", self.now) });
        }
        if NOWHERE.contains(&path) {
            return Some(DiskEntry::file(b"", self.now));
        }
        let given = || {
            let mode = if path == "/tmp" { 0o1777 } else { 0o755 };
            self.is_given(path).then(|| DiskEntry { mode, ..DiskEntry::folder(self.now) })
        };
        disk.get(name).or_else(given)
    }

    /// Whether the command's user has a permission on an entry: 4 to read, 2 to write, 1 to execute.
    pub(super) fn may(&self, entry: &DiskEntry, bit: u32) -> bool {
        let user = &self.user;
        let place = match () {
            () if user.user == 0 => return bit != 1 || entry.mode & 0o111 != 0,
            () if user.user == entry.user => 6,
            () if user.groups().any(|group| group == entry.group) => 3,
            () => 0,
        };
        entry.mode >> place & bit != 0
    }

    /// Whether the command's user may make and remove entries in the folder above a path.
    fn may_change_above(&self, path: &str) -> bool {
        self.user.user == 0
            || self.entry(&self.resolved(parent(path))).is_none_or(|folder| self.may(&folder, 2))
    }

    /// Whether the folder exists without having been written: a system folder, or a parent of a mount or file.
    fn is_given(&self, path: &str) -> bool {
        let inside = format!("{}/", path.trim_end_matches('/'));
        let below = |path: &&String| path.starts_with(&inside);
        path == "/"
            || FOLDERS.contains(&path)
            || is_within(&self.workdir, path)
            || self.mounts().any(|mount| is_within(mount, path))
            || self.files.keys().find(below).is_some()
    }

    fn mounts(&self) -> impl Iterator<Item = &str> {
        self.volumes.keys().chain(&self.read_only).map(String::as_str)
    }

    /// The path after following the links at its end, and those on the way there. The folders of `path` are resolved already.
    pub(super) fn resolved(&self, path: &str) -> String {
        let Some(Content::Link(to)) = self.entry(path).map(|entry| entry.content) else {
            return path.to_owned();
        };
        let mut at = parent(path).to_owned();
        let mut rest: Vec<String> = parts_of(&to).collect();
        let mut links = 1;
        if to.starts_with('/') {
            at = "/".to_owned();
        }
        while let Some(part) = rest.pop() {
            let next = absolute(&at, &part);
            match self.entry(&next).map(|entry| entry.content) {
                Some(Content::Link(to)) if links < LINKS && part != ".." => {
                    links += 1;
                    if to.starts_with('/') {
                        at = "/".to_owned();
                    }
                    rest.extend(parts_of(&to));
                }
                _ => at = next,
            }
        }
        at
    }

    /// The bytes of the file at a path. Links are followed.
    pub(super) fn read(&self, path: &str) -> Result<Arc<[u8]>, FileError> {
        let found = || self.entry(&self.resolved(path));
        // Files of a volume may be replaced between the links that lead to them.
        let Some(entry) = found().or_else(found) else { return Err(FileError::Missing) };
        let is_allowed = self.may(&entry, 4);
        match entry.content {
            Content::File(_) if !is_allowed => Err(FileError::Denied),
            Content::File(bytes) => Ok(bytes),
            Content::Folder => Err(FileError::Folder),
            Content::Link(_) => Err(FileError::Missing),
        }
    }

    /// Whether a folder is at the path. Links are followed.
    pub(super) fn is_folder(&self, path: &str) -> bool {
        self.entry(&self.resolved(path)).is_some_and(|entry| entry.content == Content::Folder)
    }

    /// Whether a file is at the path. Links are followed.
    pub(super) fn is_file(&self, path: &str) -> bool {
        self.entry(&self.resolved(path)).is_some_and(|entry| matches!(entry.content, Content::File(_)))
    }

    /// The names in a folder.
    pub(super) fn children(&self, path: &str) -> BTreeSet<String> {
        let (disk, name) = self.disk_of(path);
        let (mut names, passed) = disk.children(name);
        self.work.spend(100 * (passed + self.files.len() + self.volumes.len()));
        let inside = format!("{}/", path.trim_end_matches('/'));
        let given = self.files.keys().map(String::as_str).chain(FOLDERS).chain(self.mounts());
        let given = given.chain([self.workdir.as_str()]).filter_map(|path| path.strip_prefix(&inside));
        names.extend(
            given
                .filter(|rest| !rest.is_empty())
                .filter_map(|rest| rest.split('/').next())
                .map(str::to_owned),
        );
        names
    }

    /// The entry at a path and all entries below it, each folder before its children.
    pub(super) fn walk(&self, path: &str) -> Vec<(String, DiskEntry)> {
        let Some(entry) = self.entry(path) else { return Vec::new() };
        let folder = entry.content == Content::Folder;
        let mut all = vec![(path.to_owned(), entry)];
        if folder && self.runs() {
            all.extend(self.children(path).iter().flat_map(|name| self.walk(&absolute(path, name))));
        }
        all
    }

    /// Checks that the entry at a path may be replaced or removed.
    pub(super) fn writable(&self, path: &str) -> Result<(), FileError> {
        if path.len() > PATH_BYTES {
            return Err(FileError::TooLong);
        }
        // Of mounts inside each other the innermost counts.
        let innermost = |mounts: &mut dyn Iterator<Item = &String>| {
            mounts.filter(|folder| is_within(path, folder)).map(String::len).max()
        };
        let read_only = innermost(&mut self.read_only.iter());
        let is_fixed = read_only.is_some() && read_only >= innermost(&mut self.volumes.keys());
        if is_fixed || self.files.contains_key(path) { Err(FileError::ReadOnly) } else { Ok(()) }
    }

    /// Puts an entry at a path and replaces a file or link there. The parent folder must exist.
    pub(super) fn put(&self, path: &str, entry: DiskEntry) -> Result<(), FileError> {
        if NOWHERE.contains(&path) {
            return Ok(());
        }
        self.writable(path)?;
        let before = self.entry(path);
        match before.as_ref().map(|entry| &entry.content) {
            Some(Content::Folder) if entry.content == Content::Folder => return Err(FileError::Exists),
            Some(Content::Folder) => return Err(FileError::Folder),
            Some(Content::File(_) | Content::Link(_)) if entry.content == Content::Folder => {
                return Err(FileError::Exists);
            }
            Some(Content::File(_) | Content::Link(_)) | None => {}
        }
        let above = self.entry(&self.resolved(parent(path)));
        let above = match above.as_ref().map(|entry| &entry.content) {
            // A file may be mounted alone.
            _ if self.volumes.contains_key(path) => None,
            Some(Content::Folder) => above,
            Some(Content::File(_) | Content::Link(_)) => return Err(FileError::NoFolder),
            None => return Err(FileError::Missing),
        };
        let is_allowed = match (&before, &above) {
            (Some(before), _) => self.may(before, 2),
            (None, Some(above)) => self.may(above, 2),
            (None, None) => true,
        };
        if !is_allowed {
            return Err(FileError::Denied);
        }
        let (user, group) = match (before, above) {
            (Some(before), _) => (before.user, before.group),
            // New entries in a folder with this bit have the group of the folder.
            (None, Some(above)) if above.mode & 0o2000 != 0 => (self.user.user, above.group),
            (None, _) => (self.user.user, self.user.group),
        };
        let (disk, name) = self.disk_of(path);
        Ok(disk.put(name, DiskEntry { user, group, ..entry })?)
    }

    /// Writes a file. An existing file keeps its permissions; links are followed.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.work.spend(bytes.len());
        let path = self.resolved(path);
        let mode = self.entry(&path).map(|entry| entry.mode);
        let file = DiskEntry::file(bytes, self.now);
        self.put(&path, DiskEntry { mode: mode.unwrap_or(file.mode), ..file })
    }

    /// Changes the permissions of an entry.
    pub(super) fn set_mode(&self, path: &str, mode: u32) -> Result<(), FileError> {
        self.writable(path)?;
        let entry = self.entry(path).ok_or(FileError::Missing)?;
        if ![0, entry.user].contains(&self.user.user) {
            return Err(FileError::NotOwner);
        }
        let (disk, name) = self.disk_of(path);
        Ok(disk.put(name, DiskEntry { mode, ..entry })?)
    }

    /// Changes the owner and the group of an entry.
    pub(super) fn set_owner(
        &self,
        path: &str,
        user: Option<u32>,
        group: Option<u32>,
    ) -> Result<(), FileError> {
        self.writable(path)?;
        let entry = self.entry(path).ok_or(FileError::Missing)?;
        let (user, group) = (user.unwrap_or(entry.user), group.unwrap_or(entry.group));
        let is_own = self.user.user == entry.user && user == entry.user;
        if self.user.user != 0 && !(is_own && self.user.groups().any(|own| own == group)) {
            return Err(FileError::NotOwner);
        }
        let (disk, name) = self.disk_of(path);
        Ok(disk.put(name, DiskEntry { user, group, ..entry })?)
    }

    /// Appends to a file, or writes a new one.
    pub(super) fn append(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let before = self.read(path).unwrap_or_default();
        if before.len() + bytes.len() > DISK_BYTES {
            return Err(FileError::Full(super::disk::DiskFull));
        }
        // A file is written as a whole.
        self.work.spend(2 * (before.len() + bytes.len()));
        if before.is_empty() { self.write(path, bytes) } else { self.write(path, &[&before, bytes].concat()) }
    }

    /// Creates a folder and its missing parents.
    pub(super) fn make_folders(&self, path: &str) -> Result<(), FileError> {
        if self.is_folder(path) {
            return Ok(());
        }
        self.writable(path)?;
        self.make_folders(parent(path))?;
        self.put(path, DiskEntry::folder(self.now))
    }

    /// Removes a file, a link, or an empty folder.
    pub(super) fn remove(&self, path: &str) -> Result<(), FileError> {
        let entry = self.entry(path).ok_or(FileError::Missing)?;
        self.writable(path)?;
        if self.volumes.contains_key(path) {
            return Err(FileError::Busy);
        }
        if !self.may_change_above(path) {
            return Err(FileError::Denied);
        }
        if entry.content == Content::Folder && !self.children(path).is_empty() {
            return Err(FileError::NotEmpty);
        }
        let (disk, name) = self.disk_of(path);
        if disk.remove(name) { Ok(()) } else { Err(FileError::ReadOnly) }
    }
}

/// The parts of a path, the last one first.
fn parts_of(path: &str) -> impl Iterator<Item = String> {
    path.split('/').rev().filter(|part| !part.is_empty()).map(str::to_owned)
}

/// The absolute form of `path`, seen from `workdir`, without `.` and `..`. Links are not followed.
pub(super) fn absolute(workdir: &str, path: &str) -> String {
    let whole = if path.starts_with('/') { path.to_owned() } else { format!("{workdir}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

//! The files of a container as its programs see them: what every container has, what is mounted, and what was written to its
//! [`Disk`] or to volumes.

use super::disk::{Content, Disk, Entry};
use super::{World, builtin::absolute};
use crate::limits::PATH_BYTES;
use std::collections::BTreeSet;

/// Folders that every container has.
const FOLDERS: [&str; 18] = [
    "/bin", "/dev", "/etc", "/home", "/lib", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv",
    "/sys", "/tmp", "/usr", "/usr/bin", "/var", "/var/log",
];
/// Files that take everything and give nothing.
const NOWHERE: [&str; 2] = ["/dev/null", "/dev/zero"];
/// Links are followed so often.
const LINKS: usize = 8;

/// Why something cannot be done to a path, in the words of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
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
    #[error("{0}")]
    Full(#[from] super::disk::Full),
}

/// The folder that a path is in.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(parent, _)| if parent.is_empty() { "/" } else { parent })
}

fn is_within(path: &str, folder: &str) -> bool {
    folder == "/" || path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl World {
    /// The path that a program means.
    pub(super) fn path(&self, path: &str) -> String {
        self.path_in(&self.workdir, path)
    }

    /// The path that is meant by one in this folder: links on the way are followed, one at its end is not.
    pub(super) fn path_in(&self, folder: &str, path: &str) -> String {
        let path = absolute(folder, path);
        let (above, name) = path.rsplit_once('/').expect("it is absolute");
        let above =
            above.split('/').fold("/".to_owned(), |above, part| self.resolved(&absolute(&above, part)));
        absolute(&above, name)
    }

    /// Where a path is kept, and under which name there.
    fn place<'a>(&'a self, path: &'a str) -> (&'a Disk, &'a str) {
        let mounts = self.volumes.iter().rev().filter(|(folder, _)| is_within(path, folder));
        match mounts.max_by_key(|(folder, _)| folder.len()) {
            Some((folder, disk)) => (disk, &path[folder.len()..]),
            None => (&self.disk, path),
        }
    }

    /// What is under a path; links are not followed.
    pub(super) fn entry(&self, path: &str) -> Option<Entry> {
        let (disk, name) = self.place(path);
        if let Some(bytes) = self.files.get(path) {
            return Some(Entry::file(bytes, self.now));
        }
        if NOWHERE.contains(&path) {
            return Some(Entry::file(b"", self.now));
        }
        let given = || self.is_given(path).then(|| Entry::folder(self.now));
        disk.get(name).or_else(given)
    }

    /// Whether the container comes with this folder.
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

    /// The path that links lead to.
    pub(super) fn resolved(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for _ in 0..LINKS {
            match self.entry(&path).map(|entry| entry.content) {
                Some(Content::Link(to)) => path = absolute(parent(&path), &to),
                Some(Content::Folder | Content::File(_)) | None => break,
            }
        }
        path
    }

    /// The bytes of a file; links are followed.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, Problem> {
        match self.entry(&self.resolved(path)).map(|entry| entry.content) {
            Some(Content::File(bytes)) => Ok(bytes.to_vec()),
            Some(Content::Folder) => Err(Problem::Folder),
            Some(Content::Link(_)) | None => Err(Problem::Missing),
        }
    }

    /// Whether there is such a folder; links are followed.
    pub(super) fn is_folder(&self, path: &str) -> bool {
        self.entry(&self.resolved(path)).is_some_and(|entry| entry.content == Content::Folder)
    }

    /// Whether there is such a file; links are followed.
    pub(super) fn is_file(&self, path: &str) -> bool {
        self.entry(&self.resolved(path)).is_some_and(|entry| matches!(entry.content, Content::File(_)))
    }

    /// The names in a folder.
    pub(super) fn children(&self, path: &str) -> BTreeSet<String> {
        let (disk, name) = self.place(path);
        let mut names = disk.children(name);
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

    /// A path with everything below it, folders before what is in them.
    pub(super) fn walk(&self, path: &str) -> Vec<(String, Entry)> {
        let Some(entry) = self.entry(path) else { return Vec::new() };
        let folder = entry.content == Content::Folder;
        let mut all = vec![(path.to_owned(), entry)];
        if folder {
            all.extend(self.children(path).iter().flat_map(|name| self.walk(&absolute(path, name))));
        }
        all
    }

    /// Whether something may be put under, or taken from, a path.
    fn writable(&self, path: &str) -> Result<(), Problem> {
        if path.len() > PATH_BYTES {
            return Err(Problem::TooLong);
        }
        let fixed =
            self.files.contains_key(path) || self.read_only.iter().any(|folder| is_within(path, folder));
        if fixed { Err(Problem::ReadOnly) } else { Ok(()) }
    }

    /// Puts an entry under a path, in place of a file or link that is there. The folder that it is in must be there.
    pub(super) fn put(&self, path: &str, entry: Entry) -> Result<(), Problem> {
        if NOWHERE.contains(&path) {
            return Ok(());
        }
        self.writable(path)?;
        match self.entry(path).map(|entry| entry.content) {
            Some(Content::Folder) if entry.content == Content::Folder => return Err(Problem::Exists),
            Some(Content::Folder) => return Err(Problem::Folder),
            Some(Content::File(_) | Content::Link(_)) if entry.content == Content::Folder => {
                return Err(Problem::Exists);
            }
            Some(Content::File(_) | Content::Link(_)) | None => {}
        }
        match self.entry(&self.resolved(parent(path))).map(|entry| entry.content) {
            Some(Content::Folder) => {}
            Some(Content::File(_) | Content::Link(_)) => return Err(Problem::NoFolder),
            None => return Err(Problem::Missing),
        }
        let (disk, name) = self.place(path);
        Ok(disk.put(name, entry)?)
    }

    /// Writes a file; one that is there keeps its permissions, and a link is followed.
    pub(super) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Problem> {
        let path = self.resolved(path);
        let mode = self.entry(&path).map(|entry| entry.mode);
        let file = Entry::file(bytes, self.now);
        self.put(&path, Entry { mode: mode.unwrap_or(file.mode), ..file })
    }

    /// Makes a folder and those that it is in.
    pub(super) fn make_folders(&self, path: &str) -> Result<(), Problem> {
        if self.is_folder(path) {
            return Ok(());
        }
        self.writable(path)?;
        self.make_folders(parent(path))?;
        self.put(path, Entry::folder(self.now))
    }

    /// Removes a file, a link, or an empty folder.
    pub(super) fn remove(&self, path: &str) -> Result<(), Problem> {
        let entry = self.entry(path).ok_or(Problem::Missing)?;
        self.writable(path)?;
        if entry.content == Content::Folder && !self.children(path).is_empty() {
            return Err(Problem::NotEmpty);
        }
        let (disk, name) = self.place(path);
        if disk.remove(name) { Ok(()) } else { Err(Problem::ReadOnly) }
    }
}

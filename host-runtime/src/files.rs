//! The folders of this machine that containers see: the own tree of each container, and the volumes of each pod. All of them are in one
//! folder of this process, which is removed with it.

use crate::confinement::IdMap;
use crate::image::{copy_tree, remove};
use crate::limits::FOLDER_NAMES;
use crate::plan::{Layout, TreeEntry, mount_point};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, Permissions};
use std::io::{Error, ErrorKind, PipeReader, Result, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown, lchown, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The beginning of the folder's name; the number of the process follows.
const NAME: &str = "kstore-programs-";
/// The link to the current files of a volume, as Kubernetes' writer of volumes has it.
const CURRENT: &str = "..data";

/// A file of a volume that shows objects of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFile {
    /// The content.
    pub bytes: Arc<[u8]>,
    /// The permission bits.
    pub mode: u32,
    /// The user in the container that the file belongs to.
    pub user: u32,
    /// The group in the container that the file belongs to.
    pub group: u32,
}

/// The folder of this process for the files of its containers. It is removed when this is dropped, unless it is kept.
#[derive(Debug)]
pub struct ProgramFolder {
    path: PathBuf,
    /// Whether it stays for a later process.
    is_kept: bool,
    /// The folder, locked while it is in use.
    _lock: File,
    ids: IdMap,
}

impl Drop for ProgramFolder {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, folder = %self.path.display(), "files of host programs are left; the next start removes them");
        }
    }
}

impl ProgramFolder {
    /// Makes a folder in `parent` that other users may not read, and removes the folders that ended processes have left there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn create(parent: &Path, ids: IdMap) -> Result<Self> {
        remove_unused(parent);
        let process = std::process::id();
        for number in 0..FOLDER_NAMES {
            let path = parent.join(format!("{NAME}{process}-{number}"));
            match std::fs::create_dir(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process that starts now may take it for one that was left, and remove it before it is locked. What is at the path
            // then may be another's that made it anew, whose lock lasts.
            let Ok(lock) = File::open(&path) else { continue };
            lock.set_permissions(Permissions::from_mode(0o700))?;
            if lock.try_lock().is_ok() && is_at(&lock, &path) {
                return Ok(Self { path, is_kept: false, _lock: lock, ids });
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Makes a folder in `parent` as [`Self::create`] does, for containers of a runtime whose users are those of this machine.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn for_runtime(parent: &Path) -> Result<Self> {
        Self::create(parent, IdMap::identity())
    }

    /// The folder at `path`, which is made if it is missing and stays after this process, for containers of a runtime whose users are those
    /// of this machine.
    ///
    /// # Errors
    /// The folder cannot be made, or another process has it.
    pub fn keep(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path)?;
        let lock = File::open(&path)?;
        lock.set_permissions(Permissions::from_mode(0o700))?;
        let used = || Error::new(ErrorKind::ResourceBusy, format!("another process uses {}", path.display()));
        lock.try_lock().map_err(|_| used())?;
        Ok(Self { path, is_kept: true, _lock: lock, ids: IdMap::identity() })
    }

    /// The folder of a pod's log files. It need not exist.
    ///
    /// # Errors
    /// The uid is not the name of a file.
    pub fn logs(&self, uid: &str) -> Result<PathBuf> {
        Ok(self.pod(uid)?.join("logs"))
    }

    /// A file of this process's own. It need not exist.
    ///
    /// # Errors
    /// The name is not one of a file.
    pub fn file(&self, name: &str) -> Result<PathBuf> {
        Ok(self.path.join(part(name)?))
    }

    /// Writes a file that every user of a container may read, in place of an earlier one. Containers that see that one see the new content.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        std::fs::write(path, bytes)?;
        self.own(path, 0, 0)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o644))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a volume of a pod. It need not exist.
    ///
    /// # Errors
    /// A name is not one of a file.
    pub fn volume(&self, uid: &str, volume: &str) -> Result<PathBuf> {
        Ok(self.pod(uid)?.join("volumes").join(part(volume)?))
    }

    /// The folder of a volume that pods share. It need not exist.
    ///
    /// # Errors
    /// The name is not one of a file.
    pub fn shared_volume(&self, name: &str) -> Result<PathBuf> {
        Ok(self.path.join("shared").join(part(name)?))
    }

    /// The folder of a container of a pod, for its own tree and its termination message. It need not exist.
    ///
    /// # Errors
    /// A name is not one of a file.
    pub fn container(&self, uid: &str, container: &str) -> Result<PathBuf> {
        Ok(self.pod(uid)?.join("containers").join(part(container)?))
    }

    fn pod(&self, uid: &str) -> Result<PathBuf> {
        Ok(self.path.join("pods").join(part(uid)?))
    }

    /// Whether there are files of a pod.
    pub(crate) fn has_pod(&self, uid: &str) -> bool {
        self.pod(uid).is_ok_and(|pod| pod.exists())
    }

    /// Removes the files of a pod, if there are any. Programs that still see them keep them until they end.
    pub fn remove_pod(&self, uid: &str) {
        let Ok(pod) = self.pod(uid) else { return };
        match std::fs::remove_dir_all(&pod) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, folder = %pod.display(), "files of a pod are left until the end of this process");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Makes the folder of a volume that containers write to, if it is missing; users of other ids may write there, too. With a group, new
    /// files have it.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn make_volume(&self, folder: &Path, group: Option<u32>) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(folder)?;
        self.own(folder, 0, group.unwrap_or(0))?;
        let mode = if group.is_some() { 0o2777 } else { 0o777 };
        std::fs::set_permissions(folder, Permissions::from_mode(mode))
    }

    /// The folder or file at a path within a volume, which is made as a folder if it is missing. Links are followed within the volume.
    ///
    /// # Errors
    /// The path leads out of the volume, or cannot be made.
    pub fn sub_path(&self, volume: &Path, path: &str, is_writable: bool) -> Result<PathBuf> {
        if !is_below(path) {
            return Err(Error::other(format!("sub-path {path:?} leads out of its volume")));
        }
        let root = volume.canonicalize()?;
        let wanted = root.join(path);
        let mut known = wanted.as_path();
        while !known.exists() {
            known = known.parent().unwrap_or(&root);
        }
        if !known.canonicalize()?.starts_with(&root) {
            return Err(Error::other(format!("sub-path {path:?} leads out of its volume")));
        }
        if !wanted.exists() {
            if !is_writable {
                return Err(Error::new(ErrorKind::NotFound, format!("no {path:?} in the volume")));
            }
            std::fs::create_dir_all(&wanted)?;
            self.own(&wanted, 0, 0)?;
            std::fs::set_permissions(&wanted, Permissions::from_mode(0o777))?;
        }
        wanted.canonicalize()
    }

    /// Makes an empty file that every user of a container may write.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn make_writable_file(&self, path: &Path) -> Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        File::create(path)?;
        self.own(path, 0, 0)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o666))
    }

    /// Gives a pipe to a user of containers, who may then open it again.
    ///
    /// # Errors
    /// It cannot be given.
    pub(crate) fn own_pipe(&self, pipe: &PipeReader, user: u32) -> Result<()> {
        self.ids.owner(user).map_or(Ok(()), |user| fchown(pipe, Some(user), Some(user)))
    }

    /// Replaces the files of a volume at once: they are written to the new folder `name`, which begins with two dots, and a link then leads
    /// there. Readers see all old files or all new ones. No effect if the link leads there already.
    ///
    /// # Errors
    /// A file cannot be written. The old files are still there then.
    pub fn publish(&self, volume: &Path, name: &str, files: &BTreeMap<String, VolumeFile>) -> Result<()> {
        let link = volume.join(CURRENT);
        let old = std::fs::read_link(&link).ok();
        if old.as_deref() == Some(Path::new(name)) {
            return Ok(());
        }
        self.make_folder(volume)?;
        let new = volume.join(part(name)?);
        self.make_folder(&new)?;
        for (path, file) in files.iter().filter(|(path, _)| is_below(path)) {
            self.make_above(&new, path)?;
            let path = new.join(path);
            std::fs::write(&path, &file.bytes)?;
            self.own(&path, file.user, file.group)?;
            std::fs::set_permissions(&path, Permissions::from_mode(file.mode & 0o777))?;
        }
        let first = |path: &String| path.split('/').next().unwrap_or_default().to_owned();
        let wanted: BTreeSet<String> = files.keys().filter(|path| is_below(path)).map(first).collect();
        let next = volume.join("..data_tmp");
        symlink(name, &next)?;
        std::fs::rename(&next, &link)?;
        for name in &wanted {
            let (link, to) = (volume.join(name), format!("{CURRENT}/{name}"));
            if std::fs::read_link(&link).is_err() {
                symlink(to, link)?;
            }
        }
        for entry in std::fs::read_dir(volume)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with("..") && !wanted.contains(&name) {
                std::fs::remove_file(volume.join(name))?;
            }
        }
        match old {
            Some(old) => std::fs::remove_dir_all(volume.join(old)),
            None => Ok(()),
        }
    }

    /// Writes the request for a command in a container to a new file, which its launcher removes.
    pub(crate) fn write_request(&self, uid: &str, container: &str, request: &[u8]) -> Result<PathBuf> {
        let folder = self.container(uid, container)?;
        for number in 0..FOLDER_NAMES {
            let path = folder.join(format!("request-{number}"));
            match File::create_new(&path) {
                Ok(mut file) => return file.write_all(request).map(|()| path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::other("too many commands begin in the container at once"))
    }

    /// The folder of unpacked images, which is made if it is missing.
    pub(crate) fn images(&self) -> Result<PathBuf> {
        let images = self.path.join("images");
        std::fs::create_dir_all(&images)?;
        Ok(images)
    }

    /// Makes the own tree of a container at `root`, new, and the places of its mounts. It begins as a copy of the files at `image`, if
    /// there is one.
    ///
    /// # Errors
    /// An entry or a place cannot be made.
    pub fn make_root(&self, root: &Path, layout: &Layout, image: Option<&Path>) -> Result<()> {
        match std::fs::remove_dir_all(root) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if let Some(image) = image {
            let has_ids = self.ids.has_ids();
            let owner = |path: &Path, user: u32, group: u32| match has_ids {
                true => lchown(path, Some(user), Some(group)),
                false => Ok(()),
            };
            std::fs::create_dir_all(root.parent().unwrap_or(root))?;
            copy_tree(image, root, &owner)?;
        }
        self.make_folder(root)?;
        for (path, entry) in &layout.entries {
            let path = path.trim_start_matches('/');
            self.make_above(root, path)?;
            let at = root.join(path);
            match entry {
                // Folders of the image stay as they are.
                TreeEntry::Folder(_) if at.is_dir() => {}
                TreeEntry::Folder(mode) => {
                    self.make_folder(&at)?;
                    std::fs::set_permissions(&at, Permissions::from_mode(*mode))?;
                }
                TreeEntry::File(bytes) => {
                    remove(&at)?;
                    std::fs::write(&at, bytes)?;
                    self.own(&at, 0, 0)?;
                    std::fs::set_permissions(&at, Permissions::from_mode(0o644))?;
                }
                TreeEntry::Link(to) => {
                    remove(&at)?;
                    symlink(to, &at)?;
                }
            }
        }
        for (index, bind) in layout.binds.iter().enumerate() {
            let place = mount_point(root, &layout.binds[..index], &bind.target);
            let is_folder = std::fs::metadata(&bind.source)?.is_dir();
            let folder = if is_folder { Some(place.as_path()) } else { place.parent() };
            self.make_folders(folder.unwrap_or(root))?;
            if !is_folder && !place.exists() {
                File::create(&place)?;
            }
        }
        Ok(())
    }

    /// Makes the folders above a path within `root`.
    fn make_above(&self, root: &Path, path: &str) -> Result<()> {
        self.make_folders(root.join(path).parent().unwrap_or(root))
    }

    fn make_folders(&self, folder: &Path) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(above) = folder.parent() {
            self.make_folders(above)?;
        }
        self.make_folder(folder)
    }

    /// Makes a folder of the container's root with mode 0755, unless it exists.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(folder)?;
        self.own(folder, 0, 0)?;
        std::fs::set_permissions(folder, Permissions::from_mode(0o755))
    }

    /// Gives a file to a user and group of containers.
    pub(crate) fn own(&self, path: &Path, user: u32, group: u32) -> Result<()> {
        match (self.ids.owner(user), self.ids.owner(group)) {
            (Some(user), Some(group)) => lchown(path, Some(user), Some(group)),
            (None, _) | (_, None) => Ok(()),
        }
    }
}

/// Whether an open folder is still at its path.
fn is_at(folder: &File, path: &Path) -> bool {
    let identity =
        |metadata: Result<Metadata>| metadata.map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(folder.metadata()).is_some_and(|own| identity(std::fs::metadata(path)) == Some(own))
}

/// Removes the folders of ended processes.
fn remove_unused(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(NAME) || !path.is_dir() {
            continue;
        }
        // A folder of another user cannot be opened.
        if let Ok(lock) = File::open(&path)
            && lock.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// A name that is one of a file, and leads nowhere else.
fn part(name: &str) -> Result<&str> {
    match name {
        "" | "." | ".." => {
            Err(Error::new(ErrorKind::InvalidInput, format!("{name:?} is not the name of a file")))
        }
        name if name.contains(['/', '\0']) => {
            Err(Error::new(ErrorKind::InvalidInput, format!("{name:?} is not the name of a file")))
        }
        name => Ok(name),
    }
}

/// Whether a relative path leads to something below where it begins.
fn is_below(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(parent: &Path) -> ProgramFolder {
        ProgramFolder::create(parent, IdMap::Own { user: 0, group: 0 }).unwrap()
    }

    fn file(text: &str) -> VolumeFile {
        VolumeFile { bytes: Arc::from(text.as_bytes()), mode: 0o640, user: 0, group: 0 }
    }

    #[test]
    fn the_files_of_a_volume_are_replaced_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path());
        let volume = folder.volume("uid", "config").unwrap();
        let files = |texts: &[(&str, &str)]| {
            texts.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
        };
        folder.publish(&volume, "..1", &files(&[("a", "1"), ("sub/b", "2"), ("../out", "x")])).unwrap();
        let read = |path: &str| std::fs::read_to_string(volume.join(path)).unwrap();
        assert_eq!((read("a").as_str(), read("sub/b").as_str()), ("1", "2"));
        assert_eq!(std::fs::metadata(volume.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(!folder.volume("uid", "out").unwrap().exists());
        folder.publish(&volume, "..2", &files(&[("a", "3")])).unwrap();
        assert_eq!(read("a"), "3");
        let names: BTreeSet<_> = std::fs::read_dir(&volume)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, ["..2", "..data", "a"].map(str::to_owned).into());
        folder.publish(&volume, "..2", &files(&[("a", "not read: the name is the same")])).unwrap();
        assert_eq!(read("a"), "3");
    }

    #[test]
    fn a_sub_path_stays_in_its_volume() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path());
        let volume = folder.volume("uid", "data").unwrap();
        folder.make_volume(&volume, None).unwrap();
        symlink("/etc", volume.join("out")).unwrap();
        symlink("in", volume.join("link")).unwrap();
        assert!(folder.sub_path(&volume, "in/deep", true).unwrap().ends_with("data/in/deep"));
        assert!(folder.sub_path(&volume, "link/deep", true).unwrap().ends_with("data/in/deep"));
        for path in ["out", "out/x", "../x", "/etc", ""] {
            assert!(folder.sub_path(&volume, path, true).is_err(), "{path}");
        }
        assert_eq!(folder.sub_path(&volume, "missing", false).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_root_has_the_layout_and_places_for_its_mounts() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path());
        let volume = folder.volume("uid", "v").unwrap();
        folder.make_volume(&volume, None).unwrap();
        let bind = |source: &Path, target: &str| crate::plan::BindMount {
            source: source.to_owned(),
            target: target.to_owned(),
            is_read_only: false,
        };
        let entries =
            [("/bin", TreeEntry::Link("usr/bin".to_owned())), ("/a/b", TreeEntry::File(b"text".to_vec()))];
        let layout = Layout {
            entries: entries.map(|(path, entry)| (path.to_owned(), entry)).into(),
            binds: vec![bind(&volume, "/data"), bind(Path::new("/dev/null"), "/data/file")],
        };
        let root = folder.container("uid", "c").unwrap().join("root");
        for _ in 0..2 {
            folder.make_root(&root, &layout, None).unwrap();
        }
        assert_eq!(std::fs::read(root.join("a/b")).unwrap(), b"text");
        assert!(root.join("data").is_dir() && volume.join("file").is_file());
        folder.remove_pod("uid");
        assert!(!root.exists());
    }

    #[test]
    fn folders_of_ended_processes_are_removed_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{NAME}1-0"));
        std::fs::create_dir_all(left.join("pods/uid")).unwrap();
        let one = folder(dir.path());
        let other = folder(dir.path());
        assert!(!left.exists());
        assert!(one.path.is_dir() && one.path != other.path);
        let path = one.path.clone();
        drop(one);
        assert!(!path.exists() && other.path.is_dir());
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| folder(dir.path()))).collect();
            let all: Vec<_> = all.into_iter().map(|made| made.join().unwrap()).collect();
            assert!(
                all.iter().all(|folder| folder.path.is_dir()),
                "those that begin at once leave each other alone"
            );
        });
        for name in ["", ".", "..", "a/b"] {
            assert!(other.volume("uid", name).is_err(), "{name}");
        }
    }
}

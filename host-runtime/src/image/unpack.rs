//! Unpacks the layers of an image into a folder. Layers are not trusted: nothing is read or written outside of the folder, and bounds limit
//! what they may hold. Nothing else changes the folder meanwhile, so a path that was looked at stays what it was.

use super::resolve::resolve;
use super::source::GZIP;
use super::zstd::{self, ZstdReader};
use crate::limits::{IMAGE_BYTES, IMAGE_DEPTH, IMAGE_ENTRIES};
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};

/// The beginning of the name of an entry that removes a file of the layers below.
const WHITEOUT: &str = ".wh.";
/// The entry that removes all files of the layers below from its folder.
const OPAQUE: &str = ".wh..wh..opq";
/// Permission bits that are kept. Programs get no rights by a file's set-user-ID bit.
const MODES: u32 = 0o1777;
/// The owner of a folder may always change what is in it, or this process could not remove it.
const OWNER: u32 = 0o700;
/// The owner of a file may always read it, or this process could not copy it.
const READER: u32 = 0o400;

/// Gives a file to a user and group of containers.
pub(crate) type Owner<'a> = dyn Fn(&Path, u32, u32) -> Result<()> + 'a;

/// The folder of an image while its layers are unpacked.
pub(super) struct Unpacker<'a> {
    root: &'a Path,
    owner: &'a Owner<'a>,
    entries: usize,
    bytes: u64,
    /// The permission bits of folders, set at the end.
    modes: BTreeMap<PathBuf, u32>,
}

impl<'a> Unpacker<'a> {
    /// Begins with an empty folder at `root`, which is made.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(root: &'a Path, owner: &'a Owner<'a>) -> Result<Self> {
        std::fs::create_dir_all(root)?;
        owner(root, 0, 0)?;
        let modes = BTreeMap::from([(root.to_owned(), 0o755)]);
        Ok(Self { root, owner, entries: 0, bytes: 0, modes })
    }

    /// Unpacks the next layer over the earlier ones.
    ///
    /// # Errors
    /// It is damaged, has another digest, or has an entry that is refused.
    pub(super) fn layer(&mut self, mut from: impl Read, digest: &str) -> Result<()> {
        let mut first = Vec::new();
        from.by_ref().take(4).read_to_end(&mut first)?;
        let whole = std::io::Cursor::new(first.clone()).chain(from);
        if <[u8; 4]>::try_from(first.as_slice()).is_ok_and(zstd::is_compressed) {
            return self.plain_layer(ZstdReader::new(whole), digest);
        }
        match first.starts_with(&GZIP) {
            true => self.plain_layer(MultiGzDecoder::new(whole), digest),
            false => self.plain_layer(whole, digest),
        }
    }

    fn plain_layer(&mut self, from: impl Read, digest: &str) -> Result<()> {
        let mut hashed = Hashed { from, hash: Sha256::new() };
        let mut archive = Archive::new(&mut hashed);
        let mut written = BTreeSet::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            self.entry(&mut entry, &path, &mut written)
                .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        }
        // The rest counts for the digest. It has no entries, and a bound as they have.
        let rest = std::io::copy(&mut hashed.by_ref().take(IMAGE_BYTES), &mut std::io::sink())?;
        self.bytes = self.bytes.saturating_add(rest);
        let own = format!("sha256:{}", hex(&hashed.hash.finalize()));
        match own == digest {
            true => Ok(()),
            false => Err(Error::other(format!("its files have the digest {own}, and not {digest}"))),
        }
    }

    /// Unpacks an entry. `written` are the paths of this layer's entries.
    fn entry(
        &mut self,
        entry: &mut Entry<'_, impl Read>,
        path: &Path,
        written: &mut BTreeSet<PathBuf>,
    ) -> Result<()> {
        self.entries += 1;
        if self.entries > IMAGE_ENTRIES {
            return Err(Error::other(format!("the image has more than {IMAGE_ENTRIES} entries")));
        }
        let Some((above, name)) = split(path)? else { return Ok(()) };
        let folder = resolve(self.root, &above)?;
        if name == OPAQUE {
            return remove_below(&folder, written);
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            return match hidden {
                "" | "." | ".." => Err(Error::other("it removes no file")),
                hidden => remove(&folder.join(hidden)),
            };
        }
        self.make_folders(&folder)?;
        let at = folder.join(&name);
        if self.make(entry, &at)? {
            written.insert(at);
        }
        Ok(())
    }

    /// Makes the file of an entry at a path, and says whether there is one now: devices are left out.
    fn make(&mut self, entry: &mut Entry<'_, impl Read>, at: &Path) -> Result<bool> {
        let header = entry.header();
        let mode = header.mode()? & MODES;
        let number = |id: Result<u64>| id.map(|id| u32::try_from(id).unwrap_or(u32::MAX));
        let (user, group) = (number(header.uid())?, number(header.gid())?);
        match header.entry_type() {
            EntryType::Directory => {
                let is_there = std::fs::symlink_metadata(at).is_ok_and(|metadata| metadata.is_dir());
                if !is_there {
                    remove(at)?;
                    std::fs::create_dir(at)?;
                }
                self.modes.insert(at.to_owned(), mode);
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                self.bytes = self.bytes.saturating_add(entry.size());
                if self.bytes > IMAGE_BYTES {
                    return Err(Error::other(format!("the image has more than {IMAGE_BYTES} bytes")));
                }
                remove(at)?;
                let mut file = File::create_new(at)?;
                std::io::copy(entry, &mut file)?;
                file.set_permissions(Permissions::from_mode(mode | READER))?;
            }
            EntryType::Symlink => {
                let to = entry.link_name()?.ok_or_else(|| Error::other("it leads nowhere"))?;
                remove(at)?;
                symlink(&to, at)?;
            }
            EntryType::Link => {
                let to = entry.link_name()?.ok_or_else(|| Error::other("it leads nowhere"))?.into_owned();
                let Some((above, name)) = split(&to)? else { return Err(Error::other("it leads nowhere")) };
                let to = resolve(self.root, &above)?.join(name);
                if !std::fs::symlink_metadata(&to).is_ok_and(|metadata| !metadata.is_dir()) {
                    return Err(Error::new(ErrorKind::NotFound, "it is a link to no file"));
                }
                if to != at {
                    remove(at)?;
                    std::fs::hard_link(&to, at)?;
                }
                // Owner and mode are those of the file.
                return Ok(true);
            }
            _ => return Ok(false),
        }
        (self.owner)(at, user, group)?;
        Ok(true)
    }

    /// Makes the folders of a path below the root, whose links are resolved.
    fn make_folders(&mut self, folder: &Path) -> Result<()> {
        if std::fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(());
        }
        if let Some(above) = folder.parent() {
            self.make_folders(above)?;
        }
        std::fs::create_dir(folder)?;
        (self.owner)(folder, 0, 0)?;
        self.modes.insert(folder.to_owned(), 0o755);
        Ok(())
    }

    /// Sets the permission bits of the folders.
    ///
    /// # Errors
    /// They cannot be set.
    pub(super) fn finish(self) -> Result<()> {
        for (folder, mode) in self.modes {
            // A later layer may have removed or replaced it.
            if std::fs::symlink_metadata(&folder).is_ok_and(|metadata| metadata.is_dir()) {
                std::fs::set_permissions(&folder, Permissions::from_mode(mode | OWNER))?;
            }
        }
        Ok(())
    }
}

/// The folder and the name of an entry; `None` for the root itself.
///
/// # Errors
/// The path leads out of the image, or is too deep.
fn split(path: &Path) -> Result<Option<(PathBuf, String)>> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                parts.push(name.to_str().ok_or_else(|| Error::other("its name is not UTF-8"))?);
            }
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Error::other("it leads out of the image"));
            }
        }
    }
    if parts.len() > IMAGE_DEPTH {
        return Err(Error::other(format!("it is deeper than {IMAGE_DEPTH} folders")));
    }
    let name = parts.pop().map(str::to_owned);
    Ok(name.map(|name| (parts.iter().collect(), name)))
}

/// Removes a file, or a folder with all in it, if it is there. Links are not followed.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes what is in a folder, if there is one, but for `written` and what is above it.
fn remove_below(folder: &Path, written: &BTreeSet<PathBuf>) -> Result<()> {
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let is_above = written.range(path.clone()..).next().is_some_and(|next| next.starts_with(&path));
            match (is_above, entry.file_type()?.is_dir()) {
                (false, _) => remove(&path)?,
                (true, true) => pending.push(path),
                (true, false) => {}
            }
        }
    }
    Ok(())
}

/// Copies a folder with all in it to a new one. Files have the same permission bits; `owner` gets the owners on this machine.
///
/// # Errors
/// A file cannot be copied.
pub(crate) fn copy_tree(from: &Path, to: &Path, owner: &Owner<'_>) -> Result<()> {
    let mut pending = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = pending.pop() {
        let metadata = std::fs::symlink_metadata(&from)?;
        if metadata.is_dir() {
            std::fs::create_dir_all(&to)?;
            for entry in std::fs::read_dir(&from)? {
                let entry = entry?;
                pending.push((entry.path(), to.join(entry.file_name())));
            }
            std::fs::set_permissions(&to, metadata.permissions())?;
        } else if metadata.is_symlink() {
            symlink(std::fs::read_link(&from)?, &to)?;
        } else {
            std::fs::copy(&from, &to)?;
        }
        owner(&to, metadata.uid(), metadata.gid())?;
    }
    Ok(())
}

/// A reader that computes the digest of what is read.
struct Hashed<R> {
    from: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

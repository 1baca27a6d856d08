//! Files of the segment engine: their lengths, their live bytes, and the file being written.

use super::{EngineError, EngineSize, Inner, Location, body_len};
use crate::codec::history::{self, FILE_HEADER, FileList, HistoryEntry, REMOVED_KEY};
use crate::disk::{Disk, File, read_full};
use parking_lot::RwLock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SUFFIX: &str = ".seg";

/// Number of later tokens in the manifest before a retired file can be deleted.
const RETIRE_AFTER: u8 = 2;

/// The state of all files, without their content.
pub(super) struct Files {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    open: BTreeMap<u32, FileState>,
    /// Files written since the last sync.
    unsynced: BTreeSet<u32>,
    /// Whether files were created since the last sync of the directory.
    names_unsynced: bool,
    retired: Vec<RetiredFile>,
    /// Bytes of live records in all files.
    live: u64,
}

pub(super) struct FileState {
    file: Arc<dyn File>,
    /// Bytes written so far.
    len: u64,
    /// Bytes of live records.
    live: u64,
    /// Bytes of removals that must be kept.
    removal_bytes: u64,
    /// Bytes of the dictionaries of packed records.
    dictionary_bytes: u64,
}

/// A file that newer states do not need.
struct RetiredFile {
    number: u32,
    len: u64,
    /// Number of tokens to wait for.
    wait: u8,
}

/// A file that is not written any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedFile {
    pub(super) number: u32,
    pub(super) len: u64,
    /// Bytes of live records and of removals that must be kept.
    pub(super) wanted: u64,
    /// Bytes of dictionaries, which a copy of the file has, too.
    pub(super) dictionary_bytes: u64,
}

/// The name of a file.
pub(crate) fn name(number: u32) -> String {
    format!("{number:08x}{SUFFIX}")
}

/// The number in a file's name; none if the file is not one of the engine's.
pub(crate) fn number(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_suffix(SUFFIX)?, 16).ok()
}

/// Renames unusable files, so that the store does not open them and an operator can inspect them. Replaces files that
/// were set aside before.
pub(crate) fn set_aside(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for name in disk.list(dir)?.iter().filter(|name| name.ends_with(SUFFIX)) {
        disk.rename(&dir.join(name), &dir.join(format!("{name}.broken")))?;
    }
    disk.sync_dir(dir)
}

/// Removes files that none of these tokens names: files that a failed attempt to open left behind. If a token cannot be
/// decoded, all files stay, since it may name any of them.
pub(crate) fn remove_unnamed(disk: &dyn Disk, dir: &Path, tokens: &[&[u8]]) -> io::Result<()> {
    let mut named = BTreeSet::new();
    for token in tokens.iter().filter(|token| !token.is_empty()) {
        let Ok(list) = history::decode_list(token) else { return Ok(()) };
        named.extend(list.files.iter().map(|(number, _)| *number));
    }
    let names = disk.list(dir)?;
    let unnamed = names.iter().filter(|name| number(name).is_some_and(|number| !named.contains(&number)));
    let mut removed = false;
    for name in unnamed {
        disk.remove(&dir.join(name))?;
        removed = true;
    }
    if removed { disk.sync_dir(dir) } else { Ok(()) }
}

impl Files {
    /// Opens the files of a list, and returns the next free number. Other files in the directory are retired: an older
    /// token may still name them.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, list: &FileList) -> Result<(Self, u32), EngineError> {
        let names = disk.list(dir)?;
        let present: BTreeSet<_> = names.iter().filter_map(|name| number(name)).collect();
        let mut open = BTreeMap::new();
        for (number, len) in &list.files {
            let file = disk.open(&dir.join(name(*number))).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => EngineError::Corrupt(format!("{} is missing", name(*number))),
                _ => EngineError::Io(error),
            })?;
            open.insert(
                *number,
                FileState { file, len: *len, live: 0, removal_bytes: 0, dictionary_bytes: 0 },
            );
        }
        let next = present.last().map_or(0, |last| last + 1);
        let others = present.into_iter().filter(|number| !open.contains_key(number));
        let retired = others.map(|number| {
            let len = disk.open(&dir.join(name(number)))?.len()?;
            Ok(RetiredFile { number, len, wait: RETIRE_AFTER })
        });
        let retired = retired.collect::<io::Result<_>>()?;
        let (dir, unsynced) = (dir.to_owned(), BTreeSet::new());
        Ok((Self { disk, dir, open, unsynced, names_unsynced: false, retired, live: 0 }, next))
    }

    /// Reads the first `len` bytes of a file, or fewer if the file is shorter.
    pub(super) fn read(&self, number: u32, len: u64) -> Result<Vec<u8>, EngineError> {
        let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        let read = read_full(&*self.file(number), 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads the first `len` bytes of a file; fails if the file is shorter.
    pub(super) fn read_whole(&self, number: u32, len: u64) -> Result<Vec<u8>, EngineError> {
        let bytes = self.read(number, len)?;
        if bytes.len() as u64 == len {
            Ok(bytes)
        } else {
            Err(EngineError::Corrupt(format!("{} is truncated at byte {}", name(number), bytes.len())))
        }
    }

    /// The path of a file.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.dir.join(name(number))
    }

    /// Whether the file belongs to the current state.
    pub(super) fn is_open(&self, number: u32) -> bool {
        self.open.contains_key(&number)
    }

    /// The length of a file of the current state.
    pub(super) fn len(&self, number: u32) -> u64 {
        self.open.get(&number).map_or(0, |state| state.len)
    }

    pub(super) fn file(&self, number: u32) -> Arc<dyn File> {
        self.open.get(&number).expect("a location is in an open file").file.clone()
    }

    fn create(&mut self, number: u32) -> io::Result<Arc<dyn File>> {
        let file = self.disk.create(&self.dir.join(name(number)))?;
        file.write_at(0, FILE_HEADER)?;
        self.names_unsynced = true;
        let len = FILE_HEADER.len() as u64;
        self.open.insert(
            number,
            FileState { file: file.clone(), len, live: 0, removal_bytes: 0, dictionary_bytes: 0 },
        );
        Ok(file)
    }

    fn grown(&mut self, number: u32, len: u64) {
        self.unsynced.insert(number);
        self.state(number).len = len;
    }

    fn state(&mut self, number: u32) -> &mut FileState {
        self.open.get_mut(&number).expect("a location is in an open file")
    }

    pub(super) fn grow_live(&mut self, location: Location) {
        self.state(location.file).live += body_len(location);
        self.live += body_len(location);
    }

    pub(super) fn shrink_live(&mut self, location: Location) {
        self.state(location.file).live -= body_len(location);
        self.live -= body_len(location);
    }

    /// Counts a dictionary in a file.
    pub(super) fn add_dictionary_bytes(&mut self, number: u32, bytes: u64) {
        self.state(number).dictionary_bytes += bytes;
    }

    /// Counts a removal in a file that must be kept.
    pub(super) fn add_removal_bytes(&mut self, number: u32) {
        self.state(number).removal_bytes += REMOVED_KEY as u64;
    }

    /// Counts a removal as no longer needed.
    pub(super) fn sub_removal_bytes(&mut self, number: u32) {
        self.state(number).removal_bytes -= REMOVED_KEY as u64;
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        for number in &self.unsynced {
            self.open[number].file.sync()?;
        }
        self.unsynced.clear();
        if self.names_unsynced {
            self.disk.sync_dir(&self.dir)?;
            self.names_unsynced = false;
        }
        Ok(())
    }

    pub(super) fn list(&self) -> FileList {
        FileList { files: self.open.iter().map(|(number, state)| (*number, state.len)).collect() }
    }

    /// Retires a file without live records. Reads that hold it continue.
    pub(super) fn retire(&mut self, number: u32) {
        let state = self.open.remove(&number).expect("a file retires once");
        debug_assert_eq!(
            (state.live, state.removal_bytes),
            (0, 0),
            "nothing in a file that retires is wanted"
        );
        self.unsynced.remove(&number);
        self.retired.push(RetiredFile { number, len: state.len, wait: RETIRE_AFTER });
    }

    /// Notes that another token is in the manifest, and deletes the files that have waited long enough.
    pub(super) fn remove_retired(&mut self) -> Result<(), EngineError> {
        let mut gone = false;
        for RetiredFile { number, wait, .. } in &mut self.retired {
            *wait = wait.saturating_sub(1);
            if *wait == 0 {
                match self.disk.remove(&self.dir.join(name(*number))) {
                    // An earlier attempt removed it and failed later.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    other => other?,
                }
                gone = true;
            }
        }
        self.retired.retain(|retired| retired.wait > 0);
        if gone {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    /// All files except the one being written.
    pub(super) fn finished(&self, tail: Option<u32>) -> impl Iterator<Item = FinishedFile> + '_ {
        let finished = self.open.iter().filter(move |(number, _)| Some(**number) != tail);
        finished.map(|(number, state)| FinishedFile {
            number: *number,
            len: state.len,
            wanted: state.live + state.removal_bytes,
            dictionary_bytes: state.dictionary_bytes,
        })
    }

    /// Bytes of retired files.
    pub(super) fn retired(&self) -> u64 {
        self.retired.iter().map(|retired| retired.len).sum()
    }

    pub(super) fn size(&self) -> EngineSize {
        let open: u64 = self.open.values().map(|state| state.len).sum();
        let dictionaries: u64 = self.open.values().map(|state| state.dictionary_bytes).sum();
        EngineSize { allocated: open + self.retired(), live: self.live + dictionaries }
    }
}

/// Visits the entries in a file's bytes, except those in `passed`.
pub(super) fn walk<'a>(
    number: u32,
    bytes: &'a [u8],
    passed: &BTreeMap<usize, usize>,
    mut visit: impl FnMut(HistoryEntry<'a>, Location),
) -> Result<(), EngineError> {
    if !bytes.starts_with(FILE_HEADER) {
        return Err(EngineError::Corrupt(format!("{} is not a file of the engine", name(number))));
    }
    let mut offset = FILE_HEADER.len();
    while offset < bytes.len() {
        if let Some(len) = passed.get(&offset) {
            offset += len;
            continue;
        }
        let Some((entry, len)) = history::read(&bytes[offset..]) else {
            return Err(EngineError::Corrupt(format!("{} is damaged at byte {offset}", name(number))));
        };
        visit(entry, Location { file: number, offset: offset as u32, len: len as u32 });
        offset += len;
    }
    Ok(())
}

/// The file being written; created when there is something to write.
pub(super) struct Tail {
    next: u32,
    most: u64,
    open: Option<OpenFile>,
}

struct OpenFile {
    number: u32,
    file: Arc<dyn File>,
    /// Size at which the file is finished.
    max: u64,
    /// Offset at which `buffer` is written.
    offset: u64,
    buffer: Vec<u8>,
    /// Length of the file including `buffer`.
    grown: u64,
}

/// Size at which a file is finished, for `live` live bytes in all. It is small enough that waste in the file being
/// written, and a step of defragmentation, are small relative to the live bytes.
pub(super) fn file_bytes(live: u64, most: u64) -> u64 {
    const LEAST: u64 = 1 << 20;
    (live / 64).max(LEAST).min(most)
}

impl Tail {
    pub(super) fn new(next: u32, most: u64) -> Self {
        // Offsets in a file are 32 bits.
        Self { next, most: most.min(1 << 31), open: None }
    }

    /// Largest size of a file.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// The number of the file being written, if there is one.
    pub(super) fn number(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.number)
    }

    /// Appends an entry to the buffer. Returns its location after [`Tail::flush`].
    pub(super) fn append(
        &mut self,
        inner: &RwLock<Inner>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Location, EngineError> {
        if self.open.as_ref().is_some_and(|open| open.offset + open.buffer.len() as u64 >= open.max) {
            self.finish(inner)?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let begun = begin(self.next, self.most, inner)?;
                self.next += 1;
                self.open.insert(begun)
            }
        };
        let from = open.buffer.len();
        encode(&mut open.buffer);
        let location = Location {
            file: open.number,
            offset: (open.offset + from as u64) as u32,
            len: (open.buffer.len() - from) as u32,
        };
        open.grown = open.offset + open.buffer.len() as u64;
        Ok(location)
    }

    /// Writes the buffered entries.
    pub(super) fn flush(&mut self, inner: &RwLock<Inner>) -> Result<(), EngineError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if !open.buffer.is_empty() {
            let written = open.file.write_at(open.offset, &open.buffer);
            open.buffer.clear();
            if written.is_err() {
                // The caller gives up or repeats the operation; bytes that reached the file are overwritten.
                open.grown = open.offset;
            }
            written?;
            open.offset = open.grown;
            inner.write().files.grown(open.number, open.offset);
        }
        Ok(())
    }

    /// Finishes the file being written, if it has this number, so that the next entry is written to another file.
    pub(super) fn leave(&mut self, number: u32, inner: &RwLock<Inner>) -> Result<(), EngineError> {
        if self.number() == Some(number) { self.finish(inner) } else { Ok(()) }
    }

    fn finish(&mut self, inner: &RwLock<Inner>) -> Result<(), EngineError> {
        self.flush(inner)?;
        self.open = None;
        Ok(())
    }
}

fn begin(number: u32, most: u64, inner: &RwLock<Inner>) -> Result<OpenFile, EngineError> {
    let mut inner = inner.write();
    let (file, max) = (inner.files.create(number)?, file_bytes(inner.files.live, most));
    let offset = FILE_HEADER.len() as u64;
    Ok(OpenFile { number, file, max, offset, buffer: Vec::new(), grown: offset })
}

//! Imports the snapshot of an etcd, or of kstore: reads it twice, first to learn which objects can be served, then to write them with
//! their history.

use super::author::{self, Author};
use super::convert::{Conversion, ENCRYPTED, ImportedObject, LeftOut, kind_of};
use super::report::ImportReport;
use super::{IMPORT_KEY, LEFT_OUT_KEY, UnusableSource};
use crate::args::ImportArgs;
use anyhow::Context as _;
use bytes::Bytes;
use kstore_nondet::Rng;
use kstore_registry::provenance::Note;
use kstore_storage::encryption::Encryption;
use kstore_storage::storage_key;
use kstore_store::maintenance::{
    SnapshotFileError, SnapshotHistory, SnapshotRecord, VersionWriter, read_snapshot,
};
use kstore_store::{KeyValue, Revision, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A snapshot whose contents are known.
pub(super) struct Snapshot<'a> {
    path: &'a Path,
    reader: Reader<'a>,
    history: SnapshotHistory,
    /// The newest state of each existing key, or why it is left out with all of its history.
    newest: BTreeMap<Bytes, Result<(), LeftOut>>,
    /// Whether the snapshot has the provenance of its revisions, because kstore wrote it.
    has_notes: bool,
}

/// Turns keys and values of the source into those of kstore.
struct Reader<'a> {
    args: &'a ImportArgs,
    prefix: String,
    conversion: Conversion,
    decryption: Option<Decryption>,
}

/// The encryption of the source, with a runtime for its key management services.
struct Decryption {
    encryption: Encryption,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Snapshot<'a> {
    /// Reads the whole snapshot, and counts in the report what is imported and what is not.
    ///
    /// # Errors
    /// It is no snapshot, is damaged, or has encrypted values that cannot be decrypted and may not be left out.
    pub(super) fn examine(
        path: &'a Path,
        args: &'a ImportArgs,
        rng: &Rng,
        report: &mut ImportReport,
    ) -> anyhow::Result<Self> {
        let mut reader = Reader::new(args, rng)?;
        let (mut newest, mut left_out, mut has_notes) = (BTreeMap::new(), BTreeSet::new(), false);
        let history = read_snapshot(path, args.skips_hash_check, &mut |record| {
            match record {
                SnapshotRecord::Version(kv) => match reader.convert(&kv) {
                    Some(converted) => drop(newest.insert(own_bytes(&kv), converted.map(drop))),
                    None => drop(left_out.insert(own_bytes(&kv))),
                },
                SnapshotRecord::Deletion(kv) => drop(newest.remove(kv.key())),
                SnapshotRecord::Note(..) => has_notes = true,
            }
            Ok(())
        });
        let history = history.map_err(unusable)?;
        for key in left_out {
            let reason = format!("keys outside of {}", args.prefix).into();
            report.leave_out(LeftOut { kind: "other".to_owned(), reason }, &String::from_utf8_lossy(&key));
        }
        for (key, state) in &newest {
            let own = reader.own_key(key).unwrap_or_default();
            match state {
                Ok(()) => report.keep(kind_of(&own)),
                Err(reason) => report.leave_out(reason.clone(), &own),
            }
        }
        (report.revision, report.compacted) = (history.revision.0, history.compacted.0);
        refuse_encrypted(report, args)?;
        Ok(Self { path, reader, history, newest, has_notes })
    }

    /// Writes all versions to a new store, at their revisions; returns the oldest readable one, and counts the versions.
    ///
    /// # Errors
    /// The snapshot cannot be read any more, or the store cannot be written.
    pub(super) fn write(
        mut self,
        writer: &mut VersionWriter<'_, '_>,
        report: &mut ImportReport,
    ) -> anyhow::Result<Revision> {
        let mut gaps =
            Gaps { compacted: self.history.compacted, pending: None, version: 0, first: Revision(0) };
        let mut notes = (!self.has_notes).then(Notes::default);
        let mut failure = None;
        let read = read_snapshot(self.path, self.reader.args.skips_hash_check, &mut |record| {
            let written =
                write_record(&mut self.reader, &self.newest, writer, &mut gaps, notes.as_mut(), record);
            match written {
                Ok(Written::Version) => report.versions += 1,
                Ok(Written::Nothing) => {}
                Ok(Written::Unreadable(LeftOut { kind, reason }, key)) => {
                    let reason = format!("an older version: {reason}").into();
                    report.leave_out(LeftOut { kind, reason }, &key);
                }
                Err(error) => {
                    failure = Some(error);
                    return Err("the import failed".to_owned());
                }
            }
            Ok(())
        });
        if let Some(error) = failure {
            return Err(error);
        }
        read.map_err(unusable)?;
        gaps.fill(writer)?;
        for (revision, note) in notes.unwrap_or_default().encoded {
            writer.note(revision, note)?;
        }
        Ok(self.history.compacted)
    }
}

/// The key in bytes of its own: a slice of the version's bytes would keep the value in memory.
fn own_bytes(kv: &KeyValue) -> Bytes {
    Bytes::copy_from_slice(kv.key())
}

/// What became of a record.
enum Written {
    Version,
    Nothing,
    /// An older version of an object that is kept: its key and the reason.
    Unreadable(LeftOut, String),
}

fn write_record(
    reader: &mut Reader<'_>,
    newest: &BTreeMap<Bytes, Result<(), LeftOut>>,
    writer: &mut VersionWriter<'_, '_>,
    gaps: &mut Gaps,
    notes: Option<&mut Notes>,
    record: SnapshotRecord,
) -> anyhow::Result<Written> {
    match record {
        SnapshotRecord::Version(kv) => {
            let is_left_out = matches!(newest.get(kv.key()), Some(Err(_)));
            let own = reader.own_key(kv.key()).filter(|_| !is_left_out);
            let Some((own, converted)) = own.zip(reader.convert(&kv)) else {
                gaps.skip(writer, kv.mod_revision())?;
                return Ok(Written::Nothing);
            };
            match converted {
                Ok(ImportedObject { bytes, author }) => {
                    gaps.reach(writer, kv.mod_revision())?;
                    writer.put(own.as_bytes(), &bytes, kv.stamp())?;
                    if let Some((notes, author)) = notes.zip(author) {
                        notes.add(&kv, author);
                    }
                    Ok(Written::Version)
                }
                Err(left_out) => {
                    gaps.skip(writer, kv.mod_revision())?;
                    Ok(Written::Unreadable(left_out, own))
                }
            }
        }
        SnapshotRecord::Deletion(kv) => {
            let own = reader.own_key(kv.key()).filter(|_| !matches!(newest.get(kv.key()), Some(Err(_))));
            let Some(own) = own else {
                gaps.skip(writer, kv.mod_revision())?;
                return Ok(Written::Nothing);
            };
            gaps.reach(writer, kv.mod_revision())?;
            writer.delete(own.as_bytes(), kv.mod_revision())?;
            if let Some(notes) = notes {
                notes.add_deletion(kv.mod_revision());
            }
            Ok(Written::Version)
        }
        SnapshotRecord::Note(revision, note) => {
            gaps.fill(writer)?;
            if revision <= writer.revision() {
                writer.note(revision, note)?;
            }
            Ok(Written::Nothing)
        }
    }
}

/// Provenance of the revisions of an etcd, which has none: as far as the objects say who wrote them, and when.
#[derive(Default)]
struct Notes {
    encoded: BTreeMap<Revision, Bytes>,
    /// The newest time so far, in microseconds since 1970. Times of revisions do not go back, though those in objects are cut to seconds.
    time_us: i64,
    /// The author that the newest version of each key names.
    authors: BTreeMap<Bytes, Author>,
}

impl Notes {
    /// Adds that of a version of an object. A version that names the author of the one before was written without managed fields.
    fn add(&mut self, kv: &KeyValue, author: Author) {
        let is_first = kv.version() == 1;
        let before = self.authors.insert(own_bytes(kv), author.clone());
        let author = match before.filter(|before| !is_first && *before == author) {
            Some(_) => author.unknown(),
            None => author,
        };
        self.insert(kv.mod_revision(), author.note(is_first, self.time_us));
    }

    /// Adds that of a deletion, whose author is unknown and whose time is that of the revision before.
    fn add_deletion(&mut self, revision: Revision) {
        if self.time_us > 0 {
            self.insert(revision, author::deletion(self.time_us));
        }
    }

    fn insert(&mut self, revision: Revision, note: Note) {
        self.time_us = note.time_us;
        self.encoded.entry(revision).or_insert_with(|| note.encode());
    }
}

/// Revisions of which nothing is imported. Each revision of a store has a version, so such a revision gets one of a key that no API shows.
struct Gaps {
    /// Before this revision the history has gaps anyway.
    compacted: Revision,
    /// A revision of which nothing has been written so far.
    pending: Option<Revision>,
    /// The last version of the key, and the revision of its first one.
    version: i64,
    first: Revision,
}

impl Gaps {
    /// Notes that a record of this revision is not written.
    fn skip(&mut self, writer: &mut VersionWriter<'_, '_>, revision: Revision) -> anyhow::Result<()> {
        self.reach(writer, revision)?;
        if revision > self.compacted && writer.revision() < revision {
            self.pending = Some(revision);
        }
        Ok(())
    }

    /// Notes that the records of `revision` are next.
    fn reach(&mut self, writer: &mut VersionWriter<'_, '_>, revision: Revision) -> anyhow::Result<()> {
        if self.pending.is_some_and(|pending| pending < revision) {
            self.fill(writer)?;
        }
        self.pending = None;
        Ok(())
    }

    fn fill(&mut self, writer: &mut VersionWriter<'_, '_>) -> anyhow::Result<()> {
        let Some(revision) = self.pending.take() else { return Ok(()) };
        self.version += 1;
        if self.version == 1 {
            self.first = revision;
        }
        let stamp = Stamp {
            create_revision: self.first,
            mod_revision: revision,
            version: self.version,
            ..Stamp::default()
        };
        Ok(writer.put(LEFT_OUT_KEY, b"", stamp)?)
    }
}

impl<'a> Reader<'a> {
    fn new(args: &'a ImportArgs, rng: &Rng) -> anyhow::Result<Self> {
        let prefix = format!("/{}/", args.prefix.trim_matches('/'));
        let conversion = Conversion::new(args.secrets, args.is_live, args.excluded.clone(), rng)
            .only(args.kinds.clone(), args.namespaces.clone());
        let decryption =
            args.encryption.as_deref().map(|file| Decryption::open(file, &prefix, rng)).transpose()?;
        Ok(Self { args, prefix, conversion, decryption })
    }

    /// The key in kstore's storage; `None` for a key outside of the prefix.
    fn own_key(&self, key: &[u8]) -> Option<String> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        Some(format!("{}{rest}", storage_key::ROOT))
    }

    /// The value that kstore stores; `None` for a key outside of the prefix.
    fn convert(&mut self, kv: &KeyValue) -> Option<Result<ImportedObject, LeftOut>> {
        if [IMPORT_KEY, LEFT_OUT_KEY].contains(&kv.key()) {
            return None;
        }
        let key = self.own_key(kv.key())?;
        let value = match &self.decryption {
            Some(decryption) if kv.value().starts_with(ENCRYPTED) => {
                decryption.open_value(&key, kv.value_bytes())
            }
            _ => Ok(kv.value_bytes()),
        };
        Some(match value {
            Ok(value) => self.conversion.convert_stored(&key, &value),
            Err(reason) => Err(LeftOut { kind: kind_of(&key), reason: reason.into() }),
        })
    }
}

/// Begin of the reasons why values cannot be decrypted.
const UNDECRYPTED: &str = "it is encrypted";

impl Decryption {
    fn open(file: &Path, prefix: &str, rng: &Rng) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start the runtime")?;
        let encryption = Encryption::open(file, prefix, rng.fork("encryption"))?;
        Ok(Self { encryption, runtime })
    }

    fn open_value(&self, key: &str, value: Bytes) -> Result<Bytes, String> {
        let opened = self.runtime.block_on(self.encryption.decrypt(key, value));
        opened.map_err(|error| format!("{UNDECRYPTED}: {error}"))
    }
}

/// Refuses an import that would lack objects because they are encrypted, unless it may.
fn refuse_encrypted(report: &ImportReport, args: &ImportArgs) -> anyhow::Result<()> {
    let encrypted: Vec<_> =
        report.left_out.iter().filter(|group| group.reason.starts_with(UNDECRYPTED)).collect();
    if encrypted.is_empty() || args.skips_encrypted {
        return Ok(());
    }
    let each: Vec<_> =
        encrypted.iter().map(|group| format!("{} {}: {}", group.count, group.kind, group.reason)).collect();
    let text = format!(
        "{}; give the configuration of its API server with --encryption-provider-config, or leave these out with \
         --skip-encrypted",
        each.join("; ")
    );
    Err(UnusableSource(text).into())
}

fn unusable(error: SnapshotFileError) -> anyhow::Error {
    let hint = match &error {
        SnapshotFileError::NoChecksum { .. } => "; if its origin is trusted, read it with --skip-hash-check",
        _ => "",
    };
    UnusableSource(format!("{error}{hint}")).into()
}

//! The audit log file: lines are appended; files are rotated by size and removed by age and number, as
//! kube-apiserver's flags say. Writing blocks, so the writer has a thread of its own.

use super::backend::QueuedEvent;
use crate::rate_limited::RateLimited;
use jiff::{SignedDuration, Timestamp};
use kstore_nondet::Clock;
use kstore_storage::limits::AUDIT_WRITE_BYTES;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;

/// The time in the names of rotated files, as in `audit-2026-01-02T03-04-05.678.log`.
const BACKUP_TIME: &str = "%Y-%m-%dT%H-%M-%S%.3f";

/// How a log file is rotated. 0 means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Days after which a rotated file is removed.
    pub max_age_days: u32,
    /// Rotated files that are kept.
    pub max_backups: u32,
    /// Mebibytes at which the file is rotated.
    pub max_size_mb: u32,
}

/// The output of audit lines: standard output or a rotated file.
pub struct AuditLog {
    output: Output,
    log_limit: RateLimited,
}

enum Output {
    Stdout,
    File(RotatedFile),
}

impl AuditLog {
    /// A log on standard output.
    pub fn stdout() -> Self {
        Self::new(Output::Stdout)
    }

    /// A log that appends to a file. The file is created with mode 0600 if it does not exist.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn file(path: PathBuf, rotation: Rotation, clock: Clock) -> io::Result<Self> {
        Ok(Self::new(Output::File(RotatedFile::open(path, rotation, clock)?)))
    }

    fn new(output: Output) -> Self {
        Self { output, log_limit: RateLimited::every(kstore_storage::limits::REPEATED_WARNING) }
    }

    /// Writes queued events until all senders are dropped.
    pub(super) fn run(mut self, mut queue: mpsc::Receiver<QueuedEvent>) {
        while let Some(first) = queue.blocking_recv() {
            let mut batch = vec![first];
            let mut bytes = batch[0].line.len();
            // Events that were queued meanwhile are written with the first one.
            while bytes < AUDIT_WRITE_BYTES
                && let Ok(next) = queue.try_recv()
            {
                bytes += next.line.len();
                batch.push(next);
            }
            let lines: Vec<&[u8]> = batch.iter().map(|queued| queued.line.as_slice()).collect();
            let is_written = match self.write(&lines) {
                Ok(()) => true,
                Err(error) => {
                    if let Some(suppressed) = self.log_limit.allow() {
                        tracing::error!(%error, suppressed, "audit events cannot be written");
                    }
                    false
                }
            };
            for queued in batch {
                if let Some(written) = queued.written {
                    // The request may be gone; its receiver is dropped then.
                    let _ = written.send(is_written);
                }
            }
        }
    }

    fn write(&mut self, lines: &[&[u8]]) -> io::Result<()> {
        match &mut self.output {
            Output::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&lines.concat())?;
                stdout.flush()
            }
            Output::File(file) => file.write(lines),
        }
    }
}

/// A log file that is rotated when it is full.
struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    clock: Clock,
    file: File,
    size: u64,
}

impl RotatedFile {
    fn open(path: PathBuf, rotation: Rotation, clock: Clock) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder)?;
        }
        let (file, size) = append_to(&path)?;
        Ok(Self { path, rotation, clock, file, size })
    }

    /// Appends lines; a line that does not fit begins a new file.
    fn write(&mut self, lines: &[&[u8]]) -> io::Result<()> {
        let max = u64::from(self.rotation.max_size_mb) << 20;
        let mut chunk = Vec::new();
        for line in lines {
            let size = self.size + (chunk.len() + line.len()) as u64;
            if max > 0 && size > max && (self.size > 0 || !chunk.is_empty()) {
                self.append(&chunk)?;
                chunk.clear();
                self.rotate()?;
            }
            chunk.extend_from_slice(line);
        }
        self.append(&chunk)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let mut backup = backup_name(&self.path, now);
        // A second rotation within a millisecond must not overwrite the backup of the first.
        let mut later = now;
        while backup.exists() {
            later = later.checked_add(SignedDuration::from_millis(1)).map_err(io::Error::other)?;
            backup = backup_name(&self.path, later);
        }
        fs::rename(&self.path, backup)?;
        (self.file, self.size) = append_to(&self.path)?;
        self.remove_old(now)
    }

    fn remove_old(&self, now: Timestamp) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        for name in obsolete(&self.path, names, self.rotation, now) {
            fs::remove_file(folder.join(name))?;
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// The stem and the ending (with its dot) of a file's name.
fn stem_and_ending(path: &Path) -> (String, String) {
    let text =
        |part: Option<&OsStr>| part.map(|part| part.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = text(path.extension());
    (text(path.file_stem()), if ending.is_empty() { ending } else { format!(".{ending}") })
}

fn backup_name(path: &Path, at: Timestamp) -> PathBuf {
    let (stem, ending) = stem_and_ending(path);
    path.with_file_name(format!("{stem}-{}{ending}", at.strftime(BACKUP_TIME)))
}

/// The time at which a rotated file of this log was rotated; `None` for other files.
fn rotated_at(path: &Path, name: &str) -> Option<Timestamp> {
    let (stem, ending) = stem_and_ending(path);
    let time = name.strip_prefix(&stem)?.strip_prefix('-')?.strip_suffix(&ending)?;
    let time = jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", time).ok()?;
    time.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// The rotated files among `names` that are too many or too old. Pure.
fn obsolete(path: &Path, names: Vec<String>, rotation: Rotation, now: Timestamp) -> Vec<String> {
    let mut backups: Vec<_> =
        names.into_iter().filter_map(|name| Some((rotated_at(path, &name)?, name))).collect();
    backups.sort_by(|a, b| b.cmp(a));
    let kept = match rotation.max_backups {
        0 => usize::MAX,
        backups => backups as usize,
    };
    let age = SignedDuration::from_hours(24 * i64::from(rotation.max_age_days));
    let is_old = |at: Timestamp| rotation.max_age_days > 0 && now.duration_since(at) > age;
    let numbered = backups.into_iter().enumerate();
    numbered.filter(|(index, (at, _))| *index >= kept || is_old(*at)).map(|(_, (_, name))| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_nondet::Nondet;

    #[test]
    fn rotated_files_are_named_by_time_and_removed_by_number_and_age() {
        let path = Path::new("/var/log/audit.log");
        let now: Timestamp = "2026-03-10T00:00:00Z".parse().unwrap();
        let name = backup_name(path, "2026-01-02T03:04:05.678Z".parse().unwrap());
        assert_eq!(name, Path::new("/var/log/audit-2026-01-02T03-04-05.678.log"));
        let names = [
            "audit.log",
            "audit-2026-03-09T00-00-00.000.log",
            "audit-2026-03-08T00-00-00.000.log",
            "audit-2026-03-07T00-00-00.000.log",
            "audit-x.log",
            "audit-2026-03-06T00-00-00.000.txt",
            "other.log",
        ];
        let obsolete = |max_age_days, max_backups| {
            let rotation = Rotation { max_age_days, max_backups, max_size_mb: 1 };
            obsolete(path, names.map(str::to_owned).to_vec(), rotation, now)
        };
        assert!(obsolete(0, 0).is_empty());
        assert_eq!(
            obsolete(0, 1),
            ["audit-2026-03-08T00-00-00.000.log", "audit-2026-03-07T00-00-00.000.log"]
        );
        assert_eq!(obsolete(2, 0), ["audit-2026-03-07T00-00-00.000.log"]);
        assert_eq!(
            obsolete(1, 2),
            ["audit-2026-03-08T00-00-00.000.log", "audit-2026-03-07T00-00-00.000.log"]
        );
        assert_eq!(backup_name(Path::new("audit"), now), Path::new("audit-2026-03-10T00-00-00.000"));
    }

    #[test]
    fn a_full_file_is_rotated_between_lines_and_an_old_one_is_continued() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/audit.log");
        let rotation = Rotation { max_age_days: 0, max_backups: 2, max_size_mb: 1 };
        let open = || RotatedFile::open(path.clone(), rotation, Nondet::real().clock).unwrap();
        let line = |letter: u8| [vec![letter; 400 << 10], b"\n".to_vec()].concat();
        open().write(&[&line(b'a')]).unwrap();
        let mut file = open();
        let [b, c, d] = [b'b', b'c', b'd'].map(line);
        file.write(&[&b, &c, &d]).unwrap();
        let large = [vec![b'e'; 2 << 20], b"\n".to_vec()].concat();
        file.write(&[&large, b"f\n"]).unwrap();
        let files = || {
            let mut files: Vec<_> =
                fs::read_dir(dir.path().join("logs")).unwrap().map(|e| e.unwrap().path()).collect();
            files.sort();
            files
        };
        let firsts: Vec<_> = files()
            .iter()
            .map(|file| {
                let text = fs::read(file).unwrap();
                text.split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                    .map(|line| char::from(line[0]))
                    .collect::<String>()
            })
            .collect();
        // `ab` was the oldest of three and is gone.
        assert_eq!(firsts, ["cd", "e", "f"]);
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
    }
}

//! [`Reloaded`]: a value made of files, which is made again when one of them was replaced. The files are looked
//! at when the value is used, so nothing runs while it is not.

use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the value of the contents of the files, in their order.
type Make<T> = Box<dyn Fn(&[String]) -> anyhow::Result<T> + Send + Sync>;

/// A value made of files.
pub(crate) struct Reloaded<T> {
    files: Vec<PathBuf>,
    make: Make<T>,
    current: Mutex<Current<T>>,
}

struct Current<T> {
    stamps: Vec<Option<FileStamp>>,
    value: Arc<T>,
}

/// Changes whenever a file is replaced or written.
#[derive(PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl<T> Reloaded<T> {
    /// Reads the files for the first time.
    ///
    /// # Errors
    /// A file cannot be read, or `make` fails.
    pub(crate) fn new(
        files: Vec<PathBuf>,
        make: impl Fn(&[String]) -> anyhow::Result<T> + Send + Sync + 'static,
    ) -> anyhow::Result<Self> {
        // Taken before the files are read: a file that is replaced meanwhile is read again.
        let stamps = files.iter().map(|file| stamp(file)).collect();
        let value = Arc::new(make(&read(&files)?)?);
        Ok(Self { files, make: Box::new(make), current: Mutex::new(Current { stamps, value }) })
    }

    /// The value of the files as they are now. While they cannot be used, such as between the writes of a key
    /// and its certificate, the last good value; the reason is logged once.
    pub(crate) fn get(&self) -> Arc<T> {
        let stamps: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
        let mut current = self.current.lock();
        if current.stamps != stamps {
            current.stamps = stamps;
            match read(&self.files).and_then(|contents| (self.make)(&contents)) {
                Ok(value) => {
                    current.value = Arc::new(value);
                    tracing::info!(files = ?self.files, "reloaded changed files");
                }
                Err(error) => {
                    tracing::warn!(files = ?self.files, %error, "changed files cannot be used; the last ones stay in use");
                }
            }
        }
        current.value.clone()
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("files", &self.files).finish_non_exhaustive()
    }
}

fn read(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let read = |file: &PathBuf| {
        std::fs::read_to_string(file)
            .map_err(|error| anyhow::anyhow!("cannot read {}: {error}", file.display()))
    };
    files.iter().map(read).collect()
}

/// `None` if there is no file.
#[cfg(unix)]
fn stamp(file: &Path) -> Option<FileStamp> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::metadata(file).ok()?;
    let modified = (found.mtime(), found.mtime_nsec());
    Some(FileStamp { inode: found.ino(), bytes: found.size(), modified })
}

/// Always `None`: replaced files are not noticed.
#[cfg(not(unix))]
fn stamp(_: &Path) -> Option<FileStamp> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn replaced_files_are_read_once_and_bad_ones_leave_the_last_value() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        let write = |path: &Path, text: &str| crate::files::write_private(path, text.as_bytes()).unwrap();
        write(&a, "1");
        write(&b, "2");
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let sum = move |contents: &[String]| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(contents.iter().map(|text| text.parse::<u32>()).sum::<Result<u32, _>>()?)
        };
        let reloaded = Reloaded::new(vec![a.clone(), b.clone()], sum).unwrap();
        assert_eq!((*reloaded.get(), *reloaded.get(), made.load(Ordering::Relaxed)), (3, 3, 1));
        write(&b, "5");
        assert_eq!((*reloaded.get(), *reloaded.get(), made.load(Ordering::Relaxed)), (6, 6, 2));
        write(&a, "no number");
        assert_eq!((*reloaded.get(), *reloaded.get(), made.load(Ordering::Relaxed)), (6, 6, 3));
        std::fs::remove_file(&a).unwrap();
        assert_eq!(*reloaded.get(), 6);
        write(&a, "7");
        assert_eq!(*reloaded.get(), 12);
    }
}

//! [`Reloaded`]: a value made of files, which is made again when one of them has changed. The files are
//! looked at when the value is used, so nothing runs while it is not.

mod stamp;

use kstore_metrics_text::Page;
use kstore_nondet::Clock;
use kstore_storage::series::Counter;
use parking_lot::{Mutex, RwLock};
use ring::digest::{Context, SHA256};
use stamp::{FileStamp, stamp};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Why files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnusableFiles(String);

impl UnusableFiles {
    /// The reason, with its causes.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Makes the value of the contents of the files, in their order, and of the value in use; `None` at first.
type Make<T> = Box<dyn Fn(&[String], Option<&T>) -> Result<T, UnusableFiles> + Send + Sync>;

/// SHA-256 of the contents of the files.
type Digest = [u8; 32];

/// A value made of files.
///
/// While a thread reads changed files, others get the last value. Code that uses a value several times for
/// one decision calls [`Reloaded::get`] once and keeps the result.
pub struct Reloaded<T> {
    files: Vec<PathBuf>,
    make: Make<T>,
    /// The shortest time between two looks at the files.
    interval: Duration,
    looked: Mutex<LastLook>,
    current: RwLock<Arc<T>>,
    /// Notified after each change of the current value.
    changed: Notify,
    reloads: Reloads,
}

/// The state of the files when they were last looked at.
struct LastLook {
    at: Instant,
    stamps: Vec<Option<FileStamp>>,
    /// The contents that the value in use was made of.
    used: Digest,
    /// Whether the files could not be used.
    is_refused: bool,
}

/// Numbers and times of reloads.
#[derive(Default)]
struct Reloads {
    clock: Option<Clock>,
    succeeded: ReloadResult,
    failed: ReloadResult,
}

#[derive(Default)]
struct ReloadResult {
    count: Counter,
    /// The time of the last one in milliseconds since 1970; 0 before the first.
    last: AtomicU64,
}

impl<T> Reloaded<T> {
    /// Reads the files for the first time. `make` gets the contents of the files, in their order, and on
    /// later calls the value in use.
    ///
    /// # Errors
    /// A file cannot be read, or `make` fails.
    pub fn new(
        files: Vec<PathBuf>,
        make: impl Fn(&[String], Option<&T>) -> Result<T, UnusableFiles> + Send + Sync + 'static,
    ) -> Result<Self, UnusableFiles> {
        // Taken before the files are read: a file that is replaced meanwhile is read again.
        let stamps = files.iter().map(|file| stamp(file)).collect();
        let contents = read(&files)?;
        let value = Arc::new(make(&contents, None)?);
        let looked = LastLook { at: Instant::now(), stamps, used: digest(&contents), is_refused: false };
        Ok(Self {
            files,
            make: Box::new(make),
            interval: Duration::ZERO,
            looked: Mutex::new(looked),
            current: RwLock::new(value),
            changed: Notify::new(),
            reloads: Reloads::default(),
        })
    }

    /// A value that does not depend on files.
    pub fn fixed(value: T) -> Self {
        let (stamps, used) = (Vec::new(), digest(&[]));
        Self {
            files: Vec::new(),
            make: Box::new(|_, _| Err(UnusableFiles::new("there are no files"))),
            interval: Duration::ZERO,
            looked: Mutex::new(LastLook { at: Instant::now(), stamps, used, is_refused: false }),
            current: RwLock::new(Arc::new(value)),
            changed: Notify::new(),
            reloads: Reloads::default(),
        }
    }

    /// Looks at the files at most once in this time, for values that are used often. By default each use
    /// looks.
    #[must_use]
    pub fn at_most_every(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// Takes the times of reloads from this clock, for `Reloaded::render_metrics`.
    #[must_use]
    pub fn timed(mut self, clock: Clock) -> Self {
        self.reloads.clock = Some(clock);
        self
    }

    /// The value of the files as they are now. While they cannot be used, such as between the writes of a key
    /// and its certificate, the last good value; the reason is logged once.
    pub fn get(&self) -> Arc<T> {
        if !self.files.is_empty() {
            self.look();
        }
        self.current.read().clone()
    }

    /// Waits until the value is not `seen` any more, and returns the new one. Waiting does not look at the
    /// files: a use of the value elsewhere does.
    pub async fn changed_since(&self, seen: &Arc<T>) -> Arc<T> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let current = self.current.read().clone();
            if !Arc::ptr_eq(&current, seen) {
                return current;
            }
            changed.await;
        }
    }

    /// Makes the value again if the files have changed since the last look.
    fn look(&self) {
        // Another thread is looking.
        let Some(mut looked) = self.looked.try_lock() else { return };
        let now = Instant::now();
        if now.duration_since(looked.at) < self.interval {
            return;
        }
        looked.at = now;
        let stamps: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
        if looked.stamps == stamps {
            return;
        }
        looked.stamps = stamps;
        let contents = match read(&self.files) {
            Ok(contents) => contents,
            Err(error) => return self.refuse(&mut looked, &error),
        };
        let digest = digest(&contents);
        if looked.used == digest && !looked.is_refused {
            return;
        }
        let last = self.current.read().clone();
        match (self.make)(&contents, Some(&last)) {
            Ok(value) => {
                (looked.used, looked.is_refused) = (digest, false);
                *self.current.write() = Arc::new(value);
                self.changed.notify_waiters();
                self.reloads.succeeded.record(self.reloads.clock);
                tracing::info!(files = ?self.files, "reloaded changed files");
            }
            Err(error) => self.refuse(&mut looked, &error),
        }
    }

    fn refuse(&self, looked: &mut LastLook, error: &UnusableFiles) {
        looked.is_refused = true;
        self.reloads.failed.record(self.reloads.clock);
        tracing::warn!(files = ?self.files, %error, "changed files cannot be used; the last ones stay in use");
    }

    /// Writes the metrics that kube-apiserver has for the file with this purpose, such as `authentication`.
    /// Looks at the files first, unless the interval forbids it. Writes nothing for a value without files.
    pub fn render_metrics(&self, purpose: &str, page: &mut Page<'_>) {
        if self.files.is_empty() {
            return;
        }
        self.look();
        let results = [("failure", &self.reloads.failed), ("success", &self.reloads.succeeded)];
        let results: Vec<_> = results.into_iter().filter(|(_, result)| result.count.get() > 0).collect();
        let prefix = format!("apiserver_{purpose}_config_controller");
        let name = format!("{prefix}_automatic_reloads_total");
        let help = format!("Total number of automatic reloads of {purpose} configuration split by status.");
        page.head(&name, "counter", &help);
        for (status, result) in &results {
            page.line(&name, &[("status", status)], result.count.get());
        }
        let name = format!("{prefix}_automatic_reload_last_timestamp_seconds");
        let help =
            format!("Timestamp of the last automatic reload of {purpose} configuration split by status.");
        page.head(&name, "gauge", &help);
        for (status, result) in &results {
            let seconds = Duration::from_millis(result.last.load(Ordering::Relaxed)).as_secs_f64();
            page.line(&name, &[("status", status)], seconds);
        }
        let used = self.looked.lock().used;
        let name = format!("{prefix}_last_config_info");
        let help = format!("Information about the last applied {purpose} configuration with hash as label.");
        page.head(&name, "gauge", &help);
        let hash = used.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        page.line(&name, &[("hash", &format!("sha256:{hash}"))], 1);
    }
}

impl ReloadResult {
    fn record(&self, clock: Option<Clock>) {
        self.count.add(1);
        let now = clock.map(|clock| clock.now().as_millisecond()).unwrap_or_default();
        self.last.store(now.try_into().unwrap_or_default(), Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("files", &self.files).finish_non_exhaustive()
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<String>, UnusableFiles> {
    let read = |file: &PathBuf| {
        std::fs::read_to_string(file)
            .map_err(|error| UnusableFiles::new(format!("cannot read {}: {error}", file.display())))
    };
    files.iter().map(read).collect()
}

fn digest(contents: &[String]) -> Digest {
    let mut context = Context::new(&SHA256);
    // Several files are separated, so that text that moves from one to the other is a change.
    for (index, content) in contents.iter().enumerate() {
        if index > 0 {
            context.update(&[0xff]);
        }
        context.update(content.as_bytes());
    }
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests;

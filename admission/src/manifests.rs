//! [`ManifestFolder`]: the webhooks or policies that a plugin has from the files of a folder, read again when one of them has changed. The
//! files are looked at when a request needs them, so nothing runs while there is none. What a file may contain is in
//! `kstore_api::admission::manifests`.

use kstore_api::admission::manifests::{ManifestFile, ManifestPlugin, Manifests};
use kstore_api::limits::MANIFEST_BYTES;
use kstore_api::version::Minor;
use kstore_metrics_text::Page;
use kstore_nondet::Clock;
use kstore_storage::limits::MANIFEST_LOOK;
use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const NAME: &str = "apiserver_manifest_admission_config_controller";

/// The last good content of a folder. Each change is another value.
#[derive(Debug)]
pub(crate) struct LoadedManifests {
    /// The webhook configurations or policies.
    pub(crate) manifests: Manifests,
    /// `sha256:` and the hash of the files; empty if there are none.
    hash: String,
}

/// The folder of one plugin.
#[derive(Debug)]
pub(crate) struct ManifestFolder {
    plugin: ManifestPlugin,
    minor: Minor,
    path: PathBuf,
    state: Mutex<FolderState>,
}

#[derive(Debug)]
struct FolderState {
    current: Arc<LoadedManifests>,
    looked: Instant,
    /// The files at the last look.
    stamps: Vec<FileStamp>,
    /// The hash of the files that were read last, also if they could not be used.
    seen: String,
    succeeded: ReloadCount,
    failed: ReloadCount,
}

/// Number of reloads, and the time of the last one.
#[derive(Clone, Copy, Debug, Default)]
struct ReloadCount {
    count: u64,
    last: Duration,
}

impl ReloadCount {
    fn record(&mut self, clock: &Clock) {
        self.count += 1;
        let millis = u64::try_from(clock.now().as_millisecond()).unwrap_or_default();
        self.last = Duration::from_millis(millis);
    }
}

/// Changes whenever a file of the folder is replaced or written.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    bytes: u64,
    inode: u64,
    modified: (i64, i64),
}

impl ManifestFolder {
    /// Reads the folder for the first time.
    ///
    /// # Errors
    /// The path is not an absolute one of a folder, or a file in it cannot be used.
    pub(crate) fn open(plugin: ManifestPlugin, minor: Minor, path: PathBuf) -> Result<Self, String> {
        let invalid = |why: &str| format!("staticManifestsDir: Invalid value: {path:?}: {why}");
        if !path.is_absolute() {
            return Err(invalid("must be an absolute file path"));
        }
        let found = std::fs::metadata(&path).map_err(|error| invalid(&format!("unable to read: {error}")))?;
        if !found.is_dir() {
            return Err(invalid("must be a directory"));
        }
        // Taken before the files are read: a file that is replaced meanwhile is read again.
        let stamps = stamps(&path)?;
        let (files, hash) = read(&stamps)?;
        let manifests = Manifests::read(plugin, minor, &files)?;
        let current = Arc::new(LoadedManifests { manifests, hash: hash.clone() });
        let state = FolderState {
            current,
            looked: Instant::now(),
            stamps,
            seen: hash,
            succeeded: ReloadCount::default(),
            failed: ReloadCount::default(),
        };
        Ok(Self { plugin, minor, path, state: Mutex::new(state) })
    }

    /// The plugin whose manifests these are.
    pub(crate) fn plugin(&self) -> ManifestPlugin {
        self.plugin
    }

    /// The manifests as the files state them, looked at no more often than each [`MANIFEST_LOOK`]. While a file cannot be used, all of the
    /// last good ones; the reason is logged once.
    pub(crate) fn now(&self, clock: &Clock) -> Arc<LoadedManifests> {
        let mut state = self.state.lock();
        let now = Instant::now();
        if now.duration_since(state.looked) >= MANIFEST_LOOK {
            state.looked = now;
            self.look(&mut state, clock);
        }
        state.current.clone()
    }

    fn look(&self, state: &mut FolderState, clock: &Clock) {
        let folder = self.path.display();
        let read = stamps(&self.path).and_then(|stamps| {
            if stamps == state.stamps {
                return Ok(None);
            }
            let read = read(&stamps);
            state.stamps = stamps;
            read.map(Some)
        });
        let loaded = match read {
            Ok(None) => return,
            Ok(Some((_, hash))) if hash == state.seen => return,
            Ok(Some((files, hash))) => {
                state.seen.clone_from(&hash);
                Manifests::read(self.plugin, self.minor, &files)
                    .map(|manifests| LoadedManifests { manifests, hash })
            }
            Err(why) => Err(why),
        };
        match loaded {
            Ok(loaded) => {
                state.current = Arc::new(loaded);
                state.succeeded.record(clock);
                tracing::info!(plugin = self.plugin.name(), %folder, "read changed static manifests");
            }
            Err(error) => {
                state.failed.record(clock);
                let plugin = self.plugin.name();
                tracing::warn!(plugin, %folder, error, "changed static manifests cannot be used; the last ones stay");
            }
        }
    }
}

/// Writes kube-apiserver's metrics of these folders; nothing without any. Looks at their files first.
pub(crate) fn render(folders: &[Arc<ManifestFolder>], clock: &Clock, page: &mut Page<'_>) {
    if folders.is_empty() {
        return;
    }
    let mut rows = Vec::new();
    for folder in folders {
        let hash = folder.now(clock).hash.clone();
        let state = folder.state.lock();
        rows.push((folder.plugin.name(), hash, [("failure", state.failed), ("success", state.succeeded)]));
    }
    let counted = || {
        let all = rows.iter().flat_map(|(plugin, _, counts)| counts.iter().map(move |own| (*plugin, own)));
        all.filter(|(_, (_, own))| own.count > 0)
    };
    let name = format!("{NAME}_automatic_reloads_total");
    let help =
        "Total number of automatic reloads of admission manifest configuration split by status and plugin.";
    page.head(&name, "counter", help);
    for (plugin, (status, own)) in counted() {
        page.line(&name, &[("plugin", plugin), ("status", status)], own.count);
    }
    let name = format!("{NAME}_automatic_reload_last_timestamp_seconds");
    let help = "Timestamp of the last automatic reload of admission manifest configuration split by status and plugin.";
    page.head(&name, "gauge", help);
    for (plugin, (status, own)) in counted() {
        page.line(&name, &[("plugin", plugin), ("status", status)], own.last.as_secs_f64());
    }
    let name = format!("{NAME}_last_config_info");
    let help = "Information about the last applied admission manifest configuration with hash as label, split by plugin.";
    page.head(&name, "gauge", help);
    for (plugin, hash, _) in rows.iter().filter(|(_, hash, _)| !hash.is_empty()) {
        page.line(&name, &[("plugin", plugin), ("hash", hash)], 1);
    }
}

/// The YAML and JSON files directly in a folder, by name.
fn stamps(folder: &Path) -> Result<Vec<FileStamp>, String> {
    let cannot = |error: std::io::Error| {
        format!("failed to read manifest directory {:?}: {error}", folder.display().to_string())
    };
    let mut stamps = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_manifest = ["yaml", "yml", "json"].iter().any(|own| extension.eq_ignore_ascii_case(own));
        // A file that is gone meanwhile is none of the folder.
        if let Some(found) = std::fs::metadata(&path).ok().filter(|found| is_manifest && !found.is_dir()) {
            stamps.push(FileStamp::of(path, &found));
        }
    }
    stamps.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(stamps)
}

impl FileStamp {
    #[cfg(unix)]
    fn of(path: PathBuf, found: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let modified = (found.mtime(), found.mtime_nsec());
        Self { path, bytes: found.size(), inode: found.ino(), modified }
    }

    /// Without inodes and times in nanoseconds, a replaced file of the same length is not noticed.
    #[cfg(not(unix))]
    fn of(path: PathBuf, found: &std::fs::Metadata) -> Self {
        Self { path, bytes: found.len(), inode: 0, modified: (0, 0) }
    }
}

/// Reads files, and hashes them as kube-apiserver does: each that is not empty, followed by a zero byte.
fn read(stamps: &[FileStamp]) -> Result<(Vec<ManifestFile>, String), String> {
    let total = stamps.iter().map(|stamp| usize::try_from(stamp.bytes).unwrap_or(usize::MAX));
    if total.fold(0, usize::saturating_add) > MANIFEST_BYTES {
        return Err(format!("the files have more than {MANIFEST_BYTES} bytes"));
    }
    let (mut files, mut context) = (Vec::new(), Context::new(&SHA256));
    for stamp in stamps {
        let path = stamp.path.display().to_string();
        let text = std::fs::read_to_string(&stamp.path)
            .map_err(|error| format!("failed to read file {path:?}: {error}"))?;
        if !text.is_empty() {
            context.update(text.as_bytes());
            context.update(&[0]);
            files.push(ManifestFile { path, text });
        }
    }
    let bytes = context.finish();
    let hash = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hash = if files.is_empty() { String::new() } else { format!("sha256:{hash}") };
    Ok((files, hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_nondet::Nondet;

    const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n\
        metadata: {name: p.static.k8s.io}\nspec:\n  validations: [{expression: 'true'}]\n  matchConstraints: {resourceRules: \
        [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n";
    const PLUGIN: ManifestPlugin = ManifestPlugin::ValidatingPolicies;

    fn open(path: &Path) -> Result<ManifestFolder, String> {
        ManifestFolder::open(PLUGIN, Minor::V37, path.to_owned())
    }

    fn metrics(folder: &Arc<ManifestFolder>, clock: &Clock) -> String {
        let mut text = String::new();
        render(std::slice::from_ref(folder), clock, &mut Page::new(&mut text));
        text
    }

    #[tokio::test(start_paused = true)]
    async fn changed_files_are_read_again_and_bad_ones_keep_the_last_good_ones() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.YAML");
        std::fs::write(&file, POLICY).unwrap();
        std::fs::write(dir.path().join("notes.txt"), "no manifest").unwrap();
        let (folder, clock) = (Arc::new(open(dir.path()).unwrap()), Nondet::simulated(1).clock);
        let first = folder.now(&clock);
        assert_eq!(first.manifests.configurations.len(), 1);
        assert!(!metrics(&folder, &clock).contains("reloads_total{"), "the first reading is no reload");
        std::fs::write(&file, "kind: Nonsense\n").unwrap();
        assert!(Arc::ptr_eq(&folder.now(&clock), &first), "not looked at yet");
        tokio::time::advance(MANIFEST_LOOK).await;
        assert!(Arc::ptr_eq(&folder.now(&clock), &first), "a bad file changes nothing");
        std::fs::write(&file, format!("{POLICY}---\n{}", POLICY.replace("p.static", "q.static"))).unwrap();
        tokio::time::advance(MANIFEST_LOOK).await;
        let second = folder.now(&clock);
        assert_eq!(second.manifests.configurations.len(), 2);
        tokio::time::advance(MANIFEST_LOOK).await;
        assert!(Arc::ptr_eq(&folder.now(&clock), &second), "nothing has changed");
        let shown = metrics(&folder, &clock);
        for status in ["failure", "success"] {
            let line = format!(
                "{NAME}_automatic_reloads_total{{plugin=\"ValidatingAdmissionPolicy\",status=\"{status}\"}} 1"
            );
            assert!(shown.contains(&line), "{shown}");
        }
        assert!(shown.contains(&format!("hash=\"{}\"}} 1", second.hash)), "{shown}");
        std::fs::remove_file(&file).unwrap();
        tokio::time::advance(MANIFEST_LOOK).await;
        assert!(folder.now(&clock).manifests.configurations.is_empty());
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_used_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        std::fs::write(&file, "kind: Nonsense\n").unwrap();
        for (path, expected) in [
            (
                Path::new("relative"),
                "staticManifestsDir: Invalid value: \"relative\": must be an absolute file path",
            ),
            (&dir.path().join("absent"), "unable to read: No such file"),
            (&file, "must be a directory"),
            (dir.path(), "unsupported resource type /, Kind=Nonsense"),
        ] {
            let refused = open(path).unwrap_err();
            assert!(refused.contains(expected), "{expected}: {refused}");
        }
    }
}

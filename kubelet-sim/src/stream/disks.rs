//! The disks of one pod. A container's own disk lasts as long as the run of the container; volumes with their tokens and certificates
//! last as long as the pod.

use super::runner::{ContainerBudget, NamespaceBudget};
use super::tokens::{MountedToken, TokenKey};
use crate::pod_certificate::CredentialBundle;
use jiff::Timestamp;
use kstore_container_sim::{Content, Disk, DiskCapacity, DiskEntry};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The path of a file on a disk that is mounted as this file alone.
const MOUNTED_FILE: &str = "";

/// The files that a pod's commands have written, and the tokens and certificates of its volumes.
#[derive(Default)]
pub(crate) struct Disks {
    files: Mutex<PodFiles>,
    refresh: tokio::sync::Mutex<()>,
}

/// Key of a pod's certificates: the projected volume, and the position of the source in it.
pub(crate) type CertificateKey = (String, usize);

/// A disk with a root. It has none where there is no space; then it is like that of root.
pub(super) fn with_root(root: &DiskEntry, capacity: &DiskCapacity) -> Disk {
    let disk = Disk::new(capacity.clone());
    let _ = disk.put("", root.clone());
    disk
}

#[derive(Default)]
struct PodFiles {
    /// By container: the ID of the run, and its disk.
    containers: BTreeMap<String, (String, Disk)>,
    /// By container: the ID of the run, and the file of its termination message.
    terminations: BTreeMap<String, (String, Disk)>,
    budgets: BTreeMap<String, Arc<ContainerBudget>>,
    volumes: BTreeMap<String, Disk>,
    publications: u64,
    tokens: BTreeMap<TokenKey, MountedToken>,
    certificates: BTreeMap<CertificateKey, Arc<CredentialBundle>>,
}

impl Disks {
    fn files(&self) -> MutexGuard<'_, PodFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk of this run of a container. A new run begins with the files of its image, as far as there is space for them.
    pub(super) fn container(
        &self,
        name: &str,
        run: &str,
        capacity: &DiskCapacity,
        of_image: impl FnOnce() -> Vec<(&'static str, DiskEntry)>,
    ) -> Disk {
        let mut files = self.files();
        match files.containers.get(name) {
            Some((of, disk)) if of == run => disk.clone(),
            Some(_) | None => {
                let disk = Disk::new(capacity.clone());
                for (path, entry) in of_image() {
                    let _ = disk.put(path, entry);
                }
                files.containers.insert(name.to_owned(), (run.to_owned(), disk.clone()));
                disk
            }
        }
    }

    /// The mounted file of the termination message of this run of a container, empty at first.
    pub(super) fn termination(
        &self,
        name: &str,
        run: &str,
        capacity: &DiskCapacity,
        now: i64,
    ) -> Option<Disk> {
        let mut files = self.files();
        if let Some((of, disk)) = files.terminations.get(name)
            && of == run
        {
            return Some(disk.clone());
        }
        let disk = Disk::new(capacity.clone());
        // Every user of the container may write it.
        disk.put(MOUNTED_FILE, DiskEntry { mode: 0o666, ..DiskEntry::file(b"", now) }).ok()?;
        files.terminations.insert(name.to_owned(), (run.to_owned(), disk.clone()));
        Some(disk)
    }

    /// The content of the file of the termination message of this run; empty without a file.
    pub(super) fn termination_message(&self, name: &str, run: &str) -> Arc<[u8]> {
        let files = self.files();
        let file = files.terminations.get(name).filter(|(of, _)| of == run);
        match file.and_then(|(_, disk)| disk.get(MOUNTED_FILE)).map(|entry| entry.content) {
            Some(Content::File(bytes)) => bytes,
            _ => Arc::default(),
        }
    }

    /// The budget of a container of the pod, which all its runs share.
    pub(super) fn budget(&self, name: &str, namespace: &Arc<NamespaceBudget>) -> Arc<ContainerBudget> {
        let mut files = self.files();
        let budget = || Arc::new(ContainerBudget::new(namespace));
        Arc::clone(files.budgets.entry(name.to_owned()).or_insert_with(budget))
    }

    /// The disk of a volume, whose root is like `root` at first.
    pub(super) fn volume(&self, name: &str, root: &DiskEntry, capacity: &DiskCapacity) -> Disk {
        let made = || with_root(root, capacity);
        self.files().volumes.entry(name.to_owned()).or_insert_with(made).clone()
    }

    /// The number of the next publication of files in a volume.
    pub(super) fn count_publication(&self) -> u64 {
        let mut files = self.files();
        files.publications += 1;
        files.publications
    }

    /// Whether a command has read a volume that shows objects.
    pub(crate) fn shows_objects(&self) -> bool {
        self.files().publications > 0
    }

    /// Waits until no other refresh of the pod's volumes runs: the last one reads the newest objects.
    pub(super) async fn refreshing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.refresh.lock().await
    }

    /// The token that volumes of the pod hold, unless it is time to renew it.
    pub(super) fn token(&self, key: &TokenKey, now: Timestamp) -> Option<String> {
        self.files().tokens.get(key)?.at(now).map(str::to_owned)
    }

    /// When the next of the tokens that volumes of the pod hold is to be renewed.
    pub(super) fn renewal(&self) -> Option<Timestamp> {
        self.files().tokens.values().map(MountedToken::renew_at).min()
    }

    /// The newest key and certificate of a source; `None` before a signer issued one.
    pub(super) fn certificate(&self, key: &CertificateKey) -> Option<Arc<CredentialBundle>> {
        self.files().certificates.get(key).cloned()
    }

    /// Replaces the key and certificate of a source.
    pub(crate) fn keep_certificate(&self, key: CertificateKey, bundle: CredentialBundle) {
        self.files().certificates.insert(key, Arc::new(bundle));
    }

    /// Keeps a new token until it is renewed.
    pub(super) fn keep_token(&self, key: TokenKey, token: MountedToken) {
        self.files().tokens.insert(key, token);
    }
}

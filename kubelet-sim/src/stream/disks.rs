//! The disks of one pod. A container's own disk lasts as long as the run of the container; volumes and their tokens last as long as the
//! pod.

use super::runner::{ContainerBudget, NamespaceBudget};
use super::tokens::{MountedToken, TokenKey};
use jiff::Timestamp;
use kstore_container_sim::{Content, Disk, DiskCapacity, DiskEntry};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The path of a file on a disk that is mounted as this file alone.
const MOUNTED_FILE: &str = "";

/// The files that a pod's commands have written, and the tokens of its volumes.
#[derive(Default)]
pub(crate) struct Disks(Mutex<PodFiles>);

#[derive(Default)]
struct PodFiles {
    /// By container: the ID of the run, and its disk.
    containers: BTreeMap<String, (String, Disk)>,
    /// By container: the ID of the run, and the file of its termination message.
    terminations: BTreeMap<String, (String, Disk)>,
    budgets: BTreeMap<String, Arc<ContainerBudget>>,
    volumes: BTreeMap<String, Disk>,
    tokens: BTreeMap<TokenKey, MountedToken>,
}

impl Disks {
    fn files(&self) -> MutexGuard<'_, PodFiles> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk of this run of a container. A new run begins with an empty disk.
    pub(super) fn container(&self, name: &str, run: &str, capacity: &DiskCapacity) -> Disk {
        let mut files = self.files();
        match files.containers.get(name) {
            Some((of, disk)) if of == run => disk.clone(),
            Some(_) | None => {
                let disk = Disk::new(capacity.clone());
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
        disk.put(MOUNTED_FILE, DiskEntry::file(b"", now)).ok()?;
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

    /// The disk of a volume.
    pub(super) fn volume(&self, name: &str, capacity: &DiskCapacity) -> Disk {
        self.files().volumes.entry(name.to_owned()).or_insert_with(|| Disk::new(capacity.clone())).clone()
    }

    /// The token that volumes of the pod hold, unless it is time to renew it.
    pub(super) fn token(&self, key: &TokenKey, now: Timestamp) -> Option<String> {
        self.files().tokens.get(key)?.at(now).map(str::to_owned)
    }

    /// Keeps a new token until it is renewed.
    pub(super) fn keep_token(&self, key: TokenKey, token: MountedToken) {
        self.files().tokens.insert(key, token);
    }
}

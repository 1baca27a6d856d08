//! The disks of one pod: its containers' own, which end with their run, and its volumes, which last as long as the pod, as do the tokens
//! in them.

use super::tokens::{MountedToken, TokenKey};
use jiff::Timestamp;
use kstore_container_sim::{Disk, DiskCapacity};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a pod's programs have written.
#[derive(Debug, Default)]
pub(crate) struct Disks(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    /// By container: of which run, and the disk.
    containers: BTreeMap<String, (String, Disk)>,
    volumes: BTreeMap<String, Disk>,
    tokens: BTreeMap<TokenKey, MountedToken>,
}

impl Disks {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk of this run of a container. What an earlier run wrote is gone.
    pub(super) fn container(&self, name: &str, run: &str, capacity: &DiskCapacity) -> Disk {
        let mut held = self.held();
        match held.containers.get(name) {
            Some((of, disk)) if of == run => disk.clone(),
            Some(_) | None => {
                let disk = Disk::new(capacity.clone());
                held.containers.insert(name.to_owned(), (run.to_owned(), disk.clone()));
                disk
            }
        }
    }

    /// The disk of a volume.
    pub(super) fn volume(&self, name: &str, capacity: &DiskCapacity) -> Disk {
        self.held().volumes.entry(name.to_owned()).or_insert_with(|| Disk::new(capacity.clone())).clone()
    }

    /// The token that volumes of the pod hold, unless it is time to renew it.
    pub(super) fn token(&self, key: &TokenKey, now: Timestamp) -> Option<String> {
        self.held().tokens.get(key)?.at(now).map(str::to_owned)
    }

    /// Keeps a new token until it is renewed.
    pub(super) fn keep_token(&self, key: TokenKey, token: MountedToken) {
        self.held().tokens.insert(key, token);
    }
}

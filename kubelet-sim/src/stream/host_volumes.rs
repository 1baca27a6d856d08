//! Volumes of containers that run programs of this machine, or that a container runtime runs: folders of this machine. Those that show
//! objects of the API have the files of the pod's disks, and are replaced with them.

use super::environment::expand_all;
use super::real::is_real;
use super::{Snapshot, Streams};
use crate::image::hex64;
use crate::plan::{user, volume};
use k8s_openapi::api::core::v1::{Container, PodSpec, Volume, VolumeMount};
use kstore_container_sim::{Content, Disk, DiskEntry};
use kstore_host_runtime::files::{ProgramFolder, VolumeFile};
use kstore_host_runtime::plan::BindMount;
use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;

impl Streams {
    /// The mounts of a container. Its volumes that show objects have been read before.
    pub(super) async fn host_mounts(
        &self,
        folders: &Arc<ProgramFolder>,
        snapshot: &Snapshot,
        (spec, container): (&PodSpec, &Container),
        env: &[(String, String)],
    ) -> Result<Vec<BindMount>> {
        let mut binds = Vec::new();
        for volume in spec.volumes.iter().flatten() {
            let of_volume = |mount: &&VolumeMount| mount.name == volume.name;
            let mounts: Vec<_> = container.volume_mounts.iter().flatten().filter(of_volume).collect();
            if mounts.is_empty() {
                continue;
            }
            let is_written = volume::is_written(volume);
            let folder = match is_written {
                true => written_folder(folders, snapshot, spec, volume)?,
                false => self.shown_folder(folders, snapshot, spec, volume).await?,
            };
            for mount in mounts {
                let sub_path = match &mount.sub_path_expr {
                    Some(text) => expand_all(std::slice::from_ref(text), env)
                        .map_err(|_| Error::other("a sub-path is too long"))?
                        .pop(),
                    None => mount.sub_path.clone(),
                };
                let sub_path = sub_path.filter(|path| !matches!(path.as_str(), "" | "."));
                let source = match sub_path {
                    None => folder.clone(),
                    Some(path) => match folders.sub_path(&folder, &path, is_written) {
                        Err(error) if error.kind() == ErrorKind::NotFound => continue,
                        found => found?,
                    },
                };
                let is_read_only = mount.read_only == Some(true) || !is_written;
                binds.push(BindMount { source, target: mount.mount_path.clone(), is_read_only });
            }
        }
        Ok(binds)
    }

    /// The folder of a volume that shows objects, with the files of its disk.
    async fn shown_folder(
        &self,
        folders: &Arc<ProgramFolder>,
        snapshot: &Snapshot,
        spec: &PodSpec,
        volume: &Volume,
    ) -> Result<PathBuf> {
        let folder = folders.volume(&snapshot.record.pod.metadata.uid, &volume.name)?;
        let namespace = self.runner.namespace(&snapshot.record.pod.metadata.namespace);
        let root = volume::shown_root(spec, self.clock.now().as_second());
        let disk = snapshot.disks.volume(&volume.name, &root, &namespace.disks);
        publish(Arc::clone(folders), (folder.clone(), is_exact(snapshot)), &disk).await?;
        Ok(folder)
    }

    /// Brings the folder of a volume up to date with its disk, if a container of this machine sees it.
    pub(super) async fn show_on_host(&self, snapshot: &Snapshot, volume: &Volume, disk: &Disk) {
        let Some(folders) = self.folders(snapshot) else { return };
        let folder = folders.volume(&snapshot.record.pod.metadata.uid, &volume.name);
        let Some(folder) = folder.ok().filter(|folder| folder.exists()) else { return };
        if let Err(error) = publish(folders, (folder, is_exact(snapshot)), disk).await {
            tracing::warn!(%error, volume = volume.name, "a volume of containers of this machine is not brought up to date");
        }
    }

    /// The folder of the volumes that containers of the pod have on this machine, if it may have some.
    fn folders(&self, snapshot: &Snapshot) -> Option<Arc<ProgramFolder>> {
        match &self.real {
            Some(real) if is_real(&snapshot.record.pod) => Some(Arc::clone(real.folder())),
            Some(_) | None => self.programs.as_ref()?.folder().ok().cloned(),
        }
    }
}

/// Whether the files of a pod's volumes have exactly the permissions that the pod states: a container runtime gives its processes the
/// groups that they are for.
fn is_exact(snapshot: &Snapshot) -> bool {
    is_real(&snapshot.record.pod)
}

/// Writes the current files of a disk to a folder.
async fn publish(
    folders: Arc<ProgramFolder>,
    (folder, is_exact): (PathBuf, bool),
    disk: &Disk,
) -> Result<()> {
    let name = match disk.get("/..data").map(|entry| entry.content) {
        Some(Content::Link(name)) => name,
        _ => "..empty".to_owned(),
    };
    let files = disk
        .published()
        .into_iter()
        .filter_map(|(path, entry)| Some((path, file(&entry, is_exact)?)))
        .collect();
    let write = move || folders.publish(&folder, &name, &files);
    tokio::task::spawn_blocking(write).await.map_err(Error::other)?
}

/// A file of a volume. Unless its permissions are to be exact, its group's rights are everybody's: the processes of a container that runs a
/// program of this machine have no further groups, and no others see it.
fn file(entry: &DiskEntry, is_exact: bool) -> Option<VolumeFile> {
    let Content::File(bytes) = &entry.content else { return None };
    let mode = if is_exact { entry.mode } else { entry.mode | (entry.mode & 0o070) >> 3 };
    Some(VolumeFile { bytes: Arc::clone(bytes), mode, user: entry.user, group: entry.group })
}

/// The folder of a volume that programs write to, which is made if it is missing: of the pod, or of the node for a path of the node, or of
/// the claim.
fn written_folder(
    folders: &ProgramFolder,
    snapshot: &Snapshot,
    spec: &PodSpec,
    volume: &Volume,
) -> Result<PathBuf> {
    let meta = &snapshot.record.pod.metadata;
    let folder = match (&volume.host_path, &volume.persistent_volume_claim) {
        (Some(path), _) => {
            let node = spec.node_name.as_deref().unwrap_or_default();
            folders.shared_volume(&hex64(&["node", node, path.path.trim_end_matches('/')]))?
        }
        (None, Some(claim)) => {
            folders.shared_volume(&hex64(&["claim", &meta.namespace, &claim.claim_name]))?
        }
        (None, None) => folders.volume(&meta.uid, &volume.name)?,
    };
    folders.make_volume(&folder, user::volume_group(spec))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_group_can_be_read_by_a_process_without_it() {
        let mode = |mode: u32| {
            let entry = DiskEntry { mode, ..DiskEntry::file(b"", 0) };
            file(&entry, false).unwrap().mode
        };
        assert_eq!([mode(0o640), mode(0o600), mode(0o664), mode(0o755)], [0o644, 0o600, 0o666, 0o755]);
        assert!(file(&DiskEntry::folder(0), false).is_none());
        let private = DiskEntry { mode: 0o640, ..DiskEntry::file(b"", 0) };
        assert_eq!(file(&private, true).unwrap().mode, 0o640);
    }
}

//! The volumes of a pod as its containers see them. Those that show objects of the API are disks whose files are replaced at once
//! when the objects change; commands that run see the new files.

use super::environment::{MEMORY, TooLarge, container_of, expand_all};
use super::runner::NamespaceBudget;
use super::{Feed, Snapshot, Streams};
use crate::known_image;
use crate::plan::downward::{self, NodeFacts};
use crate::plan::etc;
use crate::plan::volume::{self, Files, Values};
use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, Pod, PodSpec, Volume, VolumeMount, VolumeProjection,
};
use kstore_container_sim::{Content, Disk, DiskEntry};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object whose values a volume shows, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ValueSource<'a> {
    ConfigMap(&'a str),
    Secret(&'a str),
}

/// The pod for which volumes are mounted.
#[derive(Clone, Copy)]
pub(super) struct Mounting<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) pod: &'a Pod,
    pub(super) spec: &'a PodSpec,
    pub(super) facts: &'a NodeFacts,
    pub(super) namespace: &'a NamespaceBudget,
    /// The time in seconds since 1970.
    pub(super) now: i64,
}

/// What a container's volume mounts make of its files.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    pub(super) volumes: BTreeMap<String, Disk>,
    pub(super) read_only: BTreeSet<String>,
    /// Those that are in memory.
    pub(super) memory: BTreeSet<String>,
}

impl Streams {
    /// The mounts of a container. Volumes with tokens are read only for a command that may read them.
    pub(super) async fn mounts(
        &self,
        mounting: Mounting<'_>,
        container: &Container,
        variables: &[(String, String)],
        may_read: bool,
    ) -> Result<Mounts, TooLarge> {
        let mut mounts = Mounts::default();
        for volume in mounting.spec.volumes.iter().flatten() {
            let of_volume = |mount: &&VolumeMount| mount.name == volume.name;
            let all: Vec<_> = container.volume_mounts.iter().flatten().filter(of_volume).collect();
            if all.is_empty() {
                continue;
            }
            let is_written = volume::is_written(volume);
            let disk = self.disk(mounting, volume);
            let is_image = volume.image.is_some();
            if let Some(reference) = volume.image.as_ref().and_then(|image| image.reference.as_deref()) {
                unpack(&disk, reference, mounting.now)?;
            }
            // A command that reads no file may still try to write to a mounted one.
            let has_parts = all.iter().any(|mount| mount.sub_path.is_some() || mount.sub_path_expr.is_some());
            if !is_written && (may_read || (has_parts && !volume::holds_token(volume))) {
                self.publish(mounting, volume, &disk).await?;
            }
            for mount in all {
                let folder = mount.mount_path.trim_end_matches('/').to_owned();
                let sub_path = match &mount.sub_path_expr {
                    Some(text) => expand_all(std::slice::from_ref(text), variables)?.pop(),
                    None => mount.sub_path.clone(),
                };
                let sub_path = sub_path.filter(|path| !matches!(path.as_str(), "" | "."));
                let shown = match sub_path {
                    None => disk.clone(),
                    Some(path) if is_image => match part_of_image(&disk, &path) {
                        Some(part) => part,
                        None => continue,
                    },
                    Some(path) if is_written => part(&disk, &path, mounting.now)?,
                    Some(path) => match copied(&disk, &path, mounting)? {
                        Some(copy) => copy,
                        None => continue,
                    },
                };
                if mount.read_only == Some(true) || !is_written || is_image {
                    mounts.read_only.insert(folder.clone());
                }
                if volume::is_memory(volume) {
                    mounts.memory.insert(folder.clone());
                }
                mounts.volumes.insert(folder, shown);
            }
        }
        Ok(mounts)
    }

    /// The disk of a volume, with the permissions of its root.
    fn disk(&self, mounting: Mounting<'_>, volume: &Volume) -> Disk {
        let Mounting { snapshot, spec, namespace, now, .. } = mounting;
        let root = match volume::is_written(volume) {
            true => volume::written_root(spec, now),
            false => volume::shown_root(spec, now),
        };
        if let Some(path) = &volume.host_path {
            let node = spec.node_name.as_deref().unwrap_or_default();
            let is_file = path.type_.as_deref().is_some_and(|kind| kind.starts_with("File"));
            let root = if is_file {
                DiskEntry::file(etc::node_file(&path.path).as_bytes(), now)
            } else {
                DiskEntry::folder(now)
            };
            return self.runner.host_path((node, &path.path), &root, &namespace.disks);
        }
        snapshot.disks.volume(&volume.name, &root, &namespace.disks)
    }

    /// Replaces the files of a volume by those of the objects that it shows now.
    async fn publish(&self, mounting: Mounting<'_>, volume: &Volume, disk: &Disk) -> Result<(), TooLarge> {
        let files = self.content(mounting, volume).await;
        let root = volume::shown_root(mounting.spec, mounting.now);
        let time = jiff::Timestamp::from_second(mounting.now).unwrap_or_default();
        let count = mounting.snapshot.disks.count_publication();
        let name = format!("{}.{count:09}", time.strftime("%Y_%m_%d_%H_%M_%S"));
        disk.publish(&files.all, &root, &name).map_err(|_| MEMORY)?;
        self.show_on_host(mounting.snapshot, volume, disk).await;
        Ok(())
    }

    async fn content(&self, mounting: Mounting<'_>, volume: &Volume) -> Files {
        let Mounting { snapshot, pod, spec, .. } = mounting;
        let namespace = snapshot.record.pod.metadata.namespace.as_str();
        let (mut files, mut read) = (Files::of(spec, volume), BTreeMap::new());
        if let Some(source) = &volume.config_map {
            files.add_values(&self.config_map(namespace, &source.name).await, source.items.as_deref());
        }
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            files.add_values(&self.secret(namespace, name).await, source.items.as_deref());
        }
        let own = volume.downward_api.iter().flat_map(|api| api.items.iter().flatten());
        own.for_each(|file| add_field(&mut files, mounting, file));
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        for (index, source) in sources.enumerate() {
            let VolumeProjection { config_map, secret, service_account_token, cluster_trust_bundle, .. } =
                source;
            if let Some(map) = config_map {
                let values = self.read_once(namespace, ValueSource::ConfigMap(&map.name), &mut read).await;
                files.add_values(values, map.items.as_deref());
            }
            if let Some(secret) = secret {
                let values = self.read_once(namespace, ValueSource::Secret(&secret.name), &mut read).await;
                files.add_values(values, secret.items.as_deref());
            }
            if let Some(token) = service_account_token
                && let Some(text) = self.mounted_token(snapshot, pod, token).await
            {
                files.add_credential(&token.path, &text);
            }
            if let Some(bundle) = cluster_trust_bundle
                && let Some(anchors) = self.trust_anchors(bundle).await
            {
                files.add(&bundle.path, &Arc::from(anchors.into_bytes()), None);
            }
            if let Some(certificate) = &source.pod_certificate
                && let Some(bundle) = snapshot.disks.certificate(&(volume.name.clone(), index))
            {
                let shown = bundle.files(certificate);
                shown.iter().for_each(|(path, text)| files.add_credential(path, text));
            }
            let own = source.downward_api.iter().flat_map(|api| api.items.iter().flatten());
            own.for_each(|file| add_field(&mut files, mounting, file));
        }
        files
    }

    /// The values of an object that several sources of a volume may name. It is read once, so that all of them share its bytes.
    async fn read_once<'r, 's>(
        &self,
        namespace: &str,
        source: ValueSource<'s>,
        read: &'r mut BTreeMap<ValueSource<'s>, Values>,
    ) -> &'r Values {
        match read.entry(source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(index) => index.insert(match source {
                ValueSource::ConfigMap(name) => self.config_map(namespace, name).await,
                ValueSource::Secret(name) => self.secret(namespace, name).await,
            }),
        }
    }

    /// Brings the volumes of a pod up to date that commands have read: the pod or an object that it shows has changed.
    pub(crate) async fn refresh(self, feed: Feed) {
        let (_, snapshot) = feed.get();
        let _one_at_a_time = snapshot.disks.refreshing().await;
        let meta = &snapshot.record.pod.metadata;
        let node = Self { client: self.client_of(&snapshot), ..self.clone() };
        let Ok(pod) = node.client.api::<Pod>().get(&meta.namespace, &meta.name).await else { return };
        let Some(spec) = pod.spec.as_ref().filter(|_| pod.metadata.uid.as_deref() == Some(&meta.uid)) else {
            return;
        };
        let namespace = self.runner.namespace(&meta.namespace);
        let now = self.clock.now().as_second();
        let facts = node.facts(&snapshot, spec, &Container::default()).await;
        let mounting =
            Mounting { snapshot: &snapshot, pod: &pod, spec, facts: &facts, namespace: &namespace, now };
        let shown = spec.volumes.iter().flatten().filter(|volume| !volume::is_written(volume));
        for volume in shown {
            let disk = self.disk(mounting, volume);
            if disk.published().is_empty() && disk.get("/..data").is_none() {
                continue;
            }
            // What does not fit stays as it is.
            if node.publish(mounting, volume, &disk).await.is_err() {
                tracing::debug!(volume = volume.name, "a volume is not brought up to date: no space");
            }
        }
    }
}

/// Adds the file of a field or resource of the pod.
fn add_field(files: &mut Files, mounting: Mounting<'_>, file: &DownwardAPIVolumeFile) {
    let Mounting { pod, spec, facts, .. } = mounting;
    let of_resource = file.resource_field_ref.as_ref().and_then(|wanted| {
        let container = container_of(spec, wanted.container_name.as_deref().unwrap_or_default());
        downward::resource(&container, facts, wanted)
    });
    let value = file.field_ref.as_ref().and_then(|field| downward::field(pod, facts, field)).or(of_resource);
    if let Some(value) = value {
        files.add(&file.path, &Arc::from(value.into_bytes()), file.mode);
    }
}

/// Puts the files that are known of an image on the disk of a volume of it, unless they are there.
fn unpack(disk: &Disk, reference: &str, now: i64) -> Result<(), TooLarge> {
    let files = known_image::find(reference).map(|image| image.files).unwrap_or_default();
    for (path, text) in files.iter().filter(|(path, _)| disk.get(path).is_none()) {
        for (at, _) in path.match_indices('/').skip(1) {
            if disk.get(&path[..at]).is_none() {
                disk.put(&path[..at], DiskEntry::folder(now)).map_err(|_| MEMORY)?;
            }
        }
        disk.put(path, DiskEntry::file(text.as_bytes(), now)).map_err(|_| MEMORY)?;
    }
    Ok(())
}

/// A file or folder of the volume of an image; `None` if the image has none at this path.
fn part_of_image(disk: &Disk, path: &str) -> Option<Disk> {
    let path = format!("/{}", path.trim_matches('/'));
    disk.get(&path).map(|_| disk.part(&path))
}

/// A folder of a volume that programs write to, which is made with the permissions of the volume if it is missing.
fn part(disk: &Disk, path: &str, now: i64) -> Result<Disk, TooLarge> {
    let root = disk.get("").unwrap_or_else(|| DiskEntry::folder(now));
    let mut above = String::new();
    for name in path.split('/').filter(|name| !matches!(*name, "" | "." | "..")) {
        above = format!("{above}/{name}");
        if disk.get(&above).is_none() {
            disk.put(&above, DiskEntry { modified: now, ..root.clone() }).map_err(|_| MEMORY)?;
        }
    }
    Ok(disk.part(&above))
}

/// A copy of a file or folder of a volume that shows objects: such a mount keeps what it had when its container started. `None` if
/// there is no such path.
fn copied(disk: &Disk, path: &str, mounting: Mounting<'_>) -> Result<Option<Disk>, TooLarge> {
    let path = path.trim_end_matches('/');
    let copy = Disk::new(mounting.namespace.disks.clone());
    let inside = format!("{path}/");
    let mut found = false;
    for (own, entry) in disk.published() {
        let to = match own.strip_prefix(&inside) {
            Some(below) => format!("/{below}"),
            None if own == path => String::new(),
            None => continue,
        };
        found = true;
        let folder = DiskEntry { content: Content::Folder, mode: 0o755, ..entry.clone() };
        for (at, _) in to.match_indices('/') {
            copy.put(&to[..at], folder.clone()).map_err(|_| MEMORY)?;
        }
        copy.put(&to, entry).map_err(|_| MEMORY)?;
    }
    Ok(found.then_some(copy))
}

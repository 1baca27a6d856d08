//! What a container of a runtime sees of this machine: its volumes, its file of hosts, and the file of its termination message.

use super::RealNode;
use crate::plan::cri;
use crate::stream::host::message_mount;
use crate::stream::{Snapshot, Streams};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use kstore_container_sim::Environment;
use kstore_cri::plan::MountPlan;
use kstore_host_runtime::files::ProgramFolder;
use std::path::Path;
use std::sync::Arc;

/// The file of hosts, which a kubelet manages in pods with a network of their own.
const HOSTS: &str = "/etc/hosts";

impl RealNode {
    /// The folder of volumes and logs.
    pub(in crate::stream) fn folder(&self) -> &Arc<ProgramFolder> {
        &self.config.folder
    }
}

impl Streams {
    /// The mounts of a container.
    pub(super) async fn real_mounts(
        &self,
        real: &RealNode,
        snapshot: &Snapshot,
        (spec, container): (&PodSpec, &Container),
        environment: &Environment,
    ) -> Result<Vec<MountPlan>, String> {
        let (folder, uid) = (real.folder(), &snapshot.record.pod.metadata.uid);
        let all = (spec, container);
        let volumes = self.host_mounts(folder, snapshot, all, &environment.variables).await;
        let mut mounts = Vec::new();
        for bind in volumes.map_err(|error| error.to_string())? {
            let own = container.volume_mounts.iter().flatten().find(|mount| mount.mount_path == bind.target);
            let propagation = own.and_then(|mount| mount.mount_propagation.as_deref());
            mounts.push(cri::mount(text(&bind.source), bind.target, bind.is_read_only, propagation));
        }
        let hosts = environment.files.get(HOSTS).filter(|_| spec.host_network != Some(true));
        if let Some(hosts) = hosts.filter(|_| mounts.iter().all(|mount| mount.target != HOSTS)) {
            let path =
                folder.container(uid, &container.name).map_err(|error| error.to_string())?.join("hosts");
            folder.write_file(&path, hosts).map_err(|error| error.to_string())?;
            mounts.push(cri::mount(text(&path), HOSTS.to_owned(), false, None));
        }
        if let Some(bind) = message_mount(folder, (uid.as_str(), container.name.as_str()), container)? {
            mounts.push(cri::mount(text(&bind.source), bind.target, false, None));
        }
        Ok(mounts)
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! The environment of a command in a container of a client of CRI: all of it is in the container's configuration, and nothing is read of
//! the API.

use super::EndpointView;
use super::pod::variables;
use crate::limits::ENTRY_BYTES;
use crate::stream::environment::{MEMORY, TooLarge, first_process};
use crate::stream::runner::ContainerBudget;
use crate::stream::{Snapshot, Streams};
use crate::{behavior, known_image};
use kstore_container_sim::{Environment, WorkMeter};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The variable of the programs' folders, where a container has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

impl Streams {
    /// The environment of a command in this run of a container of a client, and the budget of the container.
    pub(in crate::stream) async fn endpoint_environment(
        &self,
        (snapshot, view): (&Snapshot, &EndpointView),
        container: &str,
        run: &str,
        argv: &[String],
    ) -> Result<(Environment, Arc<ContainerBudget>), TooLarge> {
        let meta = &snapshot.record.pod.metadata;
        let Some(own) = view.pod.container(container) else {
            return Err(TooLarge("the container is gone"));
        };
        let namespace = self.runner.namespace(&meta.namespace);
        let budget = snapshot.disks.budget(container, &namespace);
        let memory = budget.buffers.allowance();
        let mut reservation = memory.hold(0).ok_or(MEMORY)?;
        let (user, hostname) = (own.user(), view.pod.hostname().to_owned());
        let mut list = vec![("PATH".to_owned(), PATH.to_owned()), ("HOSTNAME".to_owned(), hostname.clone())];
        list.extend(variables(&own.config));
        if !list.iter().any(|(name, _)| name == "HOME") {
            list.push(("HOME".to_owned(), if user.user == 0 { "/root" } else { "/" }.to_owned()));
        }
        let size: usize = list.iter().map(|(name, value)| name.len() + value.len() + 2 + ENTRY_BYTES).sum();
        if !reservation.grow(size) {
            return Err(MEMORY);
        }
        let (mut volumes, mut read_only) = (BTreeMap::new(), BTreeSet::new());
        for mount in &own.config.mounts {
            let target = mount.container_path.trim_end_matches('/').to_owned();
            let disk = view.mounts.disk(mount, &namespace.disks).await;
            let disk = disk.inspect_err(|error| {
                tracing::warn!(%error, path = mount.host_path, "a mount of a container cannot be read");
            });
            // What is gone from the machine is gone in the container.
            let Ok(disk) = disk else { continue };
            if mount.readonly {
                read_only.insert(target.clone());
            }
            volumes.insert(target, disk);
        }
        if own.has_read_only_root() {
            read_only.insert("/".to_owned());
        }
        let now = self.clock.now().as_second();
        let mut files = own_files(view, snapshot, &hostname);
        files.retain(|path, _| !volumes.contains_key(path));
        let workdir = Some(own.config.working_dir.clone()).filter(|folder| !folder.is_empty());
        let environment = Environment {
            variables: list,
            hostname,
            workdir: workdir.unwrap_or_else(|| "/".to_owned()),
            files,
            read_only,
            memory_mounts: BTreeSet::new(),
            volumes,
            user,
            no_new_privileges: own.has_no_new_privileges(),
            programs: known_image::programs(&own.image),
            disk: snapshot
                .disks
                .container(container, run, &namespace.disks, || self.image_files(&own.image, now)),
            first_process: first_process(snapshot, container, argv),
            answers: behavior::script(&meta.annotations, container).exec,
            now,
            terminal: None,
            memory,
            reservation: Some(Arc::new(reservation)),
            work: WorkMeter::default(),
        };
        Ok((environment, budget))
    }
}

/// The files that the runtime makes.
fn own_files(view: &EndpointView, snapshot: &Snapshot, hostname: &str) -> BTreeMap<String, Arc<[u8]>> {
    let ip = snapshot.machine.ip.map(|ip| ip.to_string()).unwrap_or_default();
    let hosts =
        format!("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n{ip}\t{hostname}\n");
    let own = [
        ("/etc/hostname", format!("{hostname}\n")),
        ("/etc/hosts", hosts),
        ("/etc/resolv.conf", view.pod.resolver()),
    ];
    own.into_iter().map(|(path, text)| (path.to_owned(), Arc::from(text.into_bytes()))).collect()
}

//! Builds the environment of a command in a simulated container: variables and mounted files, read from the API when a
//! command starts, as the pod's node.

use super::runner::ContainerBudget;
use super::{Snapshot, Streams};
use crate::expansion::{TooLong, expand};
use crate::limits::{ENTRY_BYTES, ENVIRONMENT_BYTES, EXPANDED_BYTES};
use crate::pod_object::options::TERMINATION_LOG;
use crate::{behavior, known_image};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, KeyToPath, ObjectFieldSelector, Pod, PodSpec, Secret, Volume,
};
use kstore_container_sim::{Environment, Reservation, User, WorkMeter, may_read_files};
use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The values of a ConfigMap or Secret.
type Values = BTreeMap<String, Arc<[u8]>>;

/// Why a command cannot start: it, its variables or its files are too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge(pub(super) &'static str);

const ARGUMENTS: TooLarge = TooLarge("argument list too long");
const MEMORY: TooLarge = TooLarge("cannot allocate memory for the mounted files");

/// An object whose values a volume shows, by its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ValueSource<'a> {
    ConfigMap(&'a str),
    Secret(&'a str),
}

/// The pod for which a volume is mounted.
#[derive(Clone, Copy)]
struct Mounting<'a> {
    snapshot: &'a Snapshot,
    pod: &'a Pod,
}

impl Streams {
    /// The environment of a command in this run of a container. It lacks objects that cannot be read. It also lacks tokens
    /// that the command does not read, so that thousands of containers that only sleep request none. With it comes the budget of the
    /// container.
    pub(super) async fn environment(
        &self,
        snapshot: &Snapshot,
        container: &str,
        run: &str,
        argv: &[String],
    ) -> Result<(Environment, Arc<ContainerBudget>), TooLarge> {
        let meta = &snapshot.record.pod.metadata;
        // All reads below are requests of the pod's node.
        let node = Self { client: self.client_of(snapshot), ..self.clone() };
        let pod = node.client.api::<Pod>().get(&meta.namespace, &meta.name).await.unwrap_or_default();
        let script = behavior::script(&meta.annotations, container);
        let spec = pod.spec.clone().unwrap_or_default();
        let found = container_of(&spec, container);
        let hostname = spec.hostname.clone().unwrap_or_else(|| meta.name.chars().take(63).collect());
        let text = |text: &str| Arc::from(text.as_bytes());
        let namespace = self.runner.namespace(&meta.namespace);
        let budget = snapshot.disks.budget(container, &namespace);
        let memory = budget.buffers.allowance();
        let mut reservation = memory.hold(0).ok_or(MEMORY)?;
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
        let mut files = BTreeMap::from([
            ("/etc/hostname".to_owned(), text(&format!("{hostname}\n"))),
            ("/etc/hosts".to_owned(), text(&format!("127.0.0.1\tlocalhost\n{ip}\t{hostname}\n"))),
        ]);
        let image = found.image.as_deref().and_then(known_image::find);
        files.extend(
            image.iter().flat_map(|image| image.files).map(|(path, file)| ((*path).to_owned(), text(file))),
        );
        let may_read = may_read_files(argv);
        let (mut volumes, mut read_only) = (BTreeMap::new(), BTreeSet::new());
        for volume in spec.volumes.iter().flatten() {
            for mount in found.volume_mounts.iter().flatten().filter(|mount| mount.name == volume.name) {
                let folder = mount.mount_path.trim_end_matches('/').to_owned();
                if is_written(volume) {
                    volumes.insert(folder.clone(), snapshot.disks.volume(&volume.name, &namespace.disks));
                }
                let whole = mount.sub_path.is_none();
                if mount.read_only == Some(true) || (whole && !is_written(volume)) {
                    read_only.insert(folder);
                }
            }
            let mut mounts = found.volume_mounts.iter().flatten().filter(|mount| mount.name == volume.name);
            // A command that reads no file may still try to write to a mounted one.
            if may_read || (!holds_token(volume) && mounts.any(|mount| mount.sub_path.is_some())) {
                node.mount(Mounting { snapshot, pod: &pod }, volume, &found, &mut files, &mut reservation)
                    .await?;
            }
        }
        let path = found.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG).trim_end_matches('/');
        if let Some(file) =
            snapshot.disks.termination(container, run, &namespace.disks, self.clock.now().as_second())
            && !path.is_empty()
        {
            volumes.insert(path.to_owned(), file);
        }
        let variables = node.variables(&pod, &found, &hostname).await?;
        let size = size_of_variables(&variables) + variables.len() * ENTRY_BYTES;
        if !reservation.grow(size) {
            return Err(MEMORY);
        }
        let environment = Environment {
            variables,
            hostname,
            workdir: found.working_dir.clone().unwrap_or_else(|| "/".to_owned()),
            files,
            read_only,
            volumes,
            user: user_of(&spec, &found),
            programs: known_image::programs(&found.image.clone().unwrap_or_default()),
            memory_mounts: BTreeSet::new(),
            disk: snapshot.disks.container(container, run, &namespace.disks),
            answers: script.exec,
            now: self.clock.now().as_second(),
            terminal: None,
            memory,
            reservation: Some(Arc::new(reservation)),
            work: WorkMeter::default(),
        };
        Ok((environment, budget))
    }

    async fn variables(
        &self,
        pod: &Pod,
        container: &Container,
        hostname: &str,
    ) -> Result<Vec<(String, String)>, TooLarge> {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let mut env = Variables::default();
        env.set("PATH".to_owned(), path.to_owned())?;
        env.set("HOSTNAME".to_owned(), hostname.to_owned())?;
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        for source in container.env_from.iter().flatten() {
            let values = match (&source.config_map_ref, &source.secret_ref) {
                (Some(map), _) => self.config_map(&namespace, &map.name).await,
                (None, Some(secret)) => self.secret(&namespace, &secret.name).await,
                (None, None) => Values::new(),
            };
            let prefix = source.prefix.clone().unwrap_or_default();
            for (key, value) in values {
                env.set(format!("{prefix}{key}"), String::from_utf8_lossy(&value).into_owned())?;
            }
        }
        for variable in container.env.iter().flatten() {
            if let Some(value) = self.value(pod, &namespace, variable, &env).await? {
                env.set(variable.name.clone(), value)?;
            }
        }
        if env.lookup("HOME").is_none() {
            let user = user_of(&pod.spec.clone().unwrap_or_default(), container).user;
            env.set("HOME".to_owned(), if user == 0 { "/root" } else { "/" }.to_owned())?;
        }
        Ok(env.list)
    }

    async fn value(
        &self,
        pod: &Pod,
        namespace: &str,
        variable: &EnvVar,
        env: &Variables,
    ) -> Result<Option<String>, TooLarge> {
        let Some(source) = &variable.value_from else {
            let text = variable.value.as_deref().unwrap_or_default();
            return expand(text, |name| env.lookup(name).map(Cow::Borrowed))
                .map(Some)
                .map_err(|TooLong| ARGUMENTS);
        };
        if let Some(field) = &source.field_ref {
            return Ok(downward(pod, field));
        }
        let (values, key) = match (&source.config_map_key_ref, &source.secret_key_ref) {
            (Some(map), _) => (self.config_map(namespace, &map.name).await, &map.key),
            (None, Some(secret)) => (self.secret(namespace, &secret.name).await, &secret.key),
            (None, None) => return Ok(None),
        };
        Ok(values.get(key).map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    async fn mount(
        &self,
        mounting: Mounting<'_>,
        volume: &Volume,
        container: &Container,
        files: &mut Values,
        reservation: &mut Reservation,
    ) -> Result<(), TooLarge> {
        let mounts: Vec<_> =
            container.volume_mounts.iter().flatten().filter(|mount| mount.name == volume.name).collect();
        if mounts.is_empty() {
            return Ok(());
        }
        let content = self.content(mounting, volume).await;
        // Several paths may share the bytes of one value.
        let values: BTreeMap<_, _> =
            content.values().map(|value| (value.as_ptr() as usize, value.len())).collect();
        if !reservation.grow(values.values().sum()) {
            return Err(MEMORY);
        }
        for mount in mounts {
            let folder = mount.mount_path.trim_end_matches('/');
            for (name, bytes) in &content {
                let path = match mount.sub_path.as_deref() {
                    Some(sub) if sub == name => folder.to_owned(),
                    Some(_) => continue,
                    None => format!("{folder}/{name}"),
                };
                if !reservation.grow(path.len() + ENTRY_BYTES) {
                    return Err(MEMORY);
                }
                files.insert(path, Arc::clone(bytes));
            }
        }
        Ok(())
    }

    async fn content(&self, mounting: Mounting<'_>, volume: &Volume) -> Values {
        let Mounting { snapshot, pod } = mounting;
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let (mut all, mut read) = (Values::new(), BTreeMap::new());
        if let Some(source) = &volume.config_map {
            all.extend(chosen(&self.config_map(&namespace, &source.name).await, source.items.as_deref()));
        }
        if let Some(source) = &volume.secret {
            let name = source.secret_name.as_deref().unwrap_or_default();
            all.extend(chosen(&self.secret(&namespace, name).await, source.items.as_deref()));
        }
        if let Some(source) = &volume.downward_api {
            for file in source.items.iter().flatten() {
                let value = file.field_ref.as_ref().and_then(|field| downward(pod, field));
                all.extend(value.map(|value| (file.path.clone(), value.into_bytes().into())));
            }
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(map) = &source.config_map {
                let values = self.read_once(&namespace, ValueSource::ConfigMap(&map.name), &mut read).await;
                all.extend(chosen(values, map.items.as_deref()));
            }
            if let Some(secret) = &source.secret {
                let values = self.read_once(&namespace, ValueSource::Secret(&secret.name), &mut read).await;
                all.extend(chosen(values, secret.items.as_deref()));
            }
            if let Some(token) = &source.service_account_token {
                let text = self.mounted_token(snapshot, pod, token).await;
                all.extend(text.map(|text| (token.path.clone(), text.into_bytes().into())));
            }
            if let Some(bundle) = &source.cluster_trust_bundle {
                let anchors = self.trust_anchors(bundle).await;
                all.extend(anchors.map(|anchors| (bundle.path.clone(), anchors.into_bytes().into())));
            }
            for file in source.downward_api.iter().flat_map(|api| api.items.iter().flatten()) {
                let value = file.field_ref.as_ref().and_then(|field| downward(pod, field));
                all.extend(value.map(|value| (file.path.clone(), value.into_bytes().into())));
            }
        }
        all
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

    async fn config_map(&self, namespace: &str, name: &str) -> Values {
        let map = self.client.api::<ConfigMap>().get(namespace, name).await.unwrap_or_default();
        let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes().into()));
        texts.chain(map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0.into()))).collect()
    }

    async fn secret(&self, namespace: &str, name: &str) -> Values {
        let secret = self.client.api::<Secret>().get(namespace, name).await.unwrap_or_default();
        secret.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0.into())).collect()
    }
}

/// The container of this name: an init, regular or ephemeral one.
pub(super) fn container_of(spec: &PodSpec, name: &str) -> Container {
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|one| Container {
        name: one.name.clone(),
        env: one.env.clone(),
        env_from: one.env_from.clone(),
        working_dir: one.working_dir.clone(),
        volume_mounts: one.volume_mounts.clone(),
        command: one.command.clone(),
        args: one.args.clone(),
        stdin: one.stdin,
        stdin_once: one.stdin_once,
        tty: one.tty,
        image: one.image.clone(),
        security_context: one.security_context.clone(),
        ..Container::default()
    });
    let all = spec.init_containers.iter().flatten().chain(&spec.containers).cloned().chain(ephemeral);
    all.into_iter().find(|container| container.name == name).unwrap_or_default()
}

/// The user of a container: that of its own security context, of the pod's, or of its image.
fn user_of(spec: &PodSpec, container: &Container) -> User {
    let number = |wanted: Option<i64>| wanted.and_then(|number| u32::try_from(number).ok());
    let (pod, own) = (spec.security_context.as_ref(), container.security_context.as_ref());
    let user = own.and_then(|own| own.run_as_user).or(pod.and_then(|pod| pod.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or(pod.and_then(|pod| pod.run_as_group));
    let more = pod.and_then(|pod| pod.supplemental_groups.as_ref()).into_iter().flatten().copied();
    let more = more.chain(pod.and_then(|pod| pod.fs_group)).filter_map(|group| number(Some(group)));
    let more: Vec<u32> = more.collect();
    let merges = pod.and_then(|pod| pod.supplemental_groups_policy.as_deref()) != Some("Strict");
    let image = container.image.as_deref().unwrap_or_default();
    known_image::user(image, number(user), number(group), &more, merges)
}

/// Whether the volume stores written files. The other kinds of volumes show objects of the API and are read-only.
fn is_written(volume: &Volume) -> bool {
    let shown = [
        volume.config_map.is_some(),
        volume.secret.is_some(),
        volume.downward_api.is_some(),
        volume.projected.is_some(),
    ];
    !shown.contains(&true)
}

/// Whether the volume holds a token of the pod's service account.
fn holds_token(volume: &Volume) -> bool {
    let mut sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    sources.any(|source| source.service_account_token.is_some())
}

/// The values that `items` select, under the paths of the items; all values if there are no items.
fn chosen(values: &Values, items: Option<&[KeyToPath]>) -> Values {
    match items {
        None | Some([]) => values.clone(),
        Some(items) => {
            let value = |item: &KeyToPath| Some((item.path.clone(), Arc::clone(values.get(&item.key)?)));
            items.iter().filter_map(value).collect()
        }
    }
}

/// The variables of a container, in the order of their first values. Each is found in logarithmic time, since a pod may have tens
/// of thousands.
#[derive(Debug, Default)]
struct Variables {
    list: Vec<(String, String)>,
    indices: BTreeMap<String, usize>,
    /// Bytes of all values that were set, also of those that later ones replaced.
    bytes: usize,
}

impl Variables {
    /// Sets a variable.
    ///
    /// # Errors
    /// The variable or all of them together are larger than Linux permits.
    fn set(&mut self, name: String, value: String) -> Result<(), TooLarge> {
        let bytes = name.len() + value.len() + 2;
        self.bytes += bytes;
        if bytes > EXPANDED_BYTES + 1 || self.bytes > ENVIRONMENT_BYTES {
            return Err(ARGUMENTS);
        }
        match self.indices.get(&name) {
            Some(index) => self.list[*index].1 = value,
            None => {
                self.indices.insert(name.clone(), self.list.len());
                self.list.push((name, value));
            }
        }
        Ok(())
    }

    fn lookup(&self, name: &str) -> Option<&str> {
        self.indices.get(name).map(|index| self.list[*index].1.as_str())
    }
}

fn size_of_variables(env: &[(String, String)]) -> usize {
    env.iter().map(|(name, value)| name.len() + value.len() + 2).sum()
}

/// The arguments of a command, each with its variables replaced.
pub(super) fn expand_all(argv: &[String], env: &[(String, String)]) -> Result<Vec<String>, TooLarge> {
    let known: BTreeMap<&str, &str> =
        env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (mut all, mut size) = (Vec::new(), 0);
    for word in argv {
        let word = expand(word, |name| known.get(name).copied().map(Cow::Borrowed));
        let word = word.map_err(|TooLong| ARGUMENTS)?;
        size += word.len() + 1;
        if size > ENVIRONMENT_BYTES {
            return Err(ARGUMENTS);
        }
        all.push(word);
    }
    Ok(all)
}

/// The value of a pod field for the downward API.
fn downward(pod: &Pod, field: &ObjectFieldSelector) -> Option<String> {
    let (meta, spec, status) = (&pod.metadata, pod.spec.as_ref()?, pod.status.as_ref());
    let of = |map: &Option<BTreeMap<String, String>>, rest: &str| {
        let key = rest.trim_matches(['[', ']', '\'', '"']);
        Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default())
    };
    let all = |map: &Option<BTreeMap<String, String>>| {
        let lines = map.iter().flatten().map(|(key, value)| format!("{key}={value:?}"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    match field.field_path.as_str() {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "metadata.labels" => all(&meta.labels),
        "metadata.annotations" => all(&meta.annotations),
        "spec.nodeName" => spec.node_name.clone(),
        "spec.serviceAccountName" => spec.service_account_name.clone(),
        "status.podIP" => status?.pod_ip.clone(),
        "status.hostIP" => status?.host_ip.clone(),
        path => match (path.strip_prefix("metadata.labels"), path.strip_prefix("metadata.annotations")) {
            (Some(rest), _) => of(&meta.labels, rest),
            (None, Some(rest)) => of(&meta.annotations, rest),
            (None, None) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_double_each_other_are_refused_before_they_are_made() {
        let mut env = Variables::default();
        env.set("V".to_owned(), "x".repeat(1024)).unwrap();
        let refused = (0..40).find(|_| {
            match expand("$(V)$(V)", |name| env.lookup(name).map(|value| value.to_owned().into())) {
                Ok(value) => env.set("V".to_owned(), value).is_err(),
                Err(TooLong) => true,
            }
        });
        assert_eq!(refused, Some(6), "128 KiB with the name");
        let argv = vec!["$(V)".to_owned(); 40];
        assert_eq!(expand_all(&argv, &env.list), Err(ARGUMENTS));
    }

    /// A volume may show one value of a megabyte under thousands of paths.
    #[test]
    fn paths_of_one_value_share_its_bytes() {
        let values = Values::from([("k".to_owned(), Arc::from(vec![b'x'; 1 << 20]))]);
        let item = |n: usize| KeyToPath { key: "k".to_owned(), path: format!("p{n}"), mode: None };
        let items: Vec<KeyToPath> = (0..6000).map(item).collect();
        let shown = chosen(&values, Some(&items));
        assert_eq!(shown.len(), 6000);
        assert!(shown.values().all(|bytes| Arc::ptr_eq(bytes, &values["k"])));
    }

    #[test]
    fn tens_of_thousands_of_variables_are_set_in_linear_time() {
        let mut env = Variables::default();
        let set = (0..).take_while(|number| env.set(format!("v{number}"), String::new()).is_ok()).count();
        assert!((100_000..1_000_000).contains(&set), "{set}");
        assert_eq!((env.lookup("v0"), env.lookup("w")), (Some(""), None));
    }
}

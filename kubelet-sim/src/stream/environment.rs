//! Builds the environment of a command in a simulated container: variables and mounted files, read from the API when a
//! command starts, as the pod's node.

use super::runner::ContainerBudget;
use super::volumes::Mounting;
use super::{Snapshot, Streams};
use crate::expansion::{TooLong, expand};
use crate::limits::{ENTRY_BYTES, ENVIRONMENT_BYTES, EXPANDED_BYTES};
use crate::plan::downward::NodeFacts;
use crate::plan::volume::Values;
use crate::plan::{cgroup, downward, etc, services, user, volume};
use crate::pod_object::options::TERMINATION_LOG;
use crate::service::API_SERVER;
use crate::{behavior, known_image, program};
use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvVar, Node, Pod, PodSpec, Secret, Service};
use kstore_client::{ApiError, ListParams};
use kstore_container_sim::{Content, DiskEntry, Environment, WorkMeter, may_read_files};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why a command cannot start: it, its variables or its files are too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge(pub(super) &'static str);

const ARGUMENTS: TooLarge = TooLarge("argument list too long");
pub(super) const MEMORY: TooLarge = TooLarge("cannot allocate memory for the mounted files");

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
        if let Some(view) = &snapshot.endpoint {
            return Box::pin(self.endpoint_environment((snapshot, view), container, run, argv)).await;
        }
        let meta = &snapshot.record.pod.metadata;
        // All reads below are requests of the pod's node.
        let node = Self { client: self.client_of(snapshot), ..self.clone() };
        let pod = node.client.api::<Pod>().get(&meta.namespace, &meta.name).await.unwrap_or_default();
        let script = behavior::script(&meta.annotations, container);
        let spec = pod.spec.clone().unwrap_or_default();
        let found = container_of(&spec, container);
        let namespace = self.runner.namespace(&meta.namespace);
        let budget = snapshot.disks.budget(container, &namespace);
        let memory = budget.buffers.allowance();
        let mut reservation = memory.hold(0).ok_or(MEMORY)?;
        let facts = node.facts(snapshot, &spec, &found).await;
        let (user, hostname) = (user::of(&spec, &found), etc::hostname(&spec, &meta.name));
        let variables = node.variables((&pod, &found), &facts, &hostname).await?;
        let size = size_of_variables(&variables) + variables.len() * ENTRY_BYTES;
        if !reservation.grow(size) {
            return Err(MEMORY);
        }
        let now = self.clock.now().as_second();
        let mounting =
            Mounting { snapshot, pod: &pod, spec: &spec, facts: &facts, namespace: &namespace, now };
        let mut mounts = node.mounts(mounting, &found, &variables, may_read_files(argv)).await?;
        let path = found.termination_message_path.as_deref().unwrap_or(TERMINATION_LOG).trim_end_matches('/');
        if let Some(file) = snapshot.disks.termination(container, run, &namespace.disks, now)
            && !path.is_empty()
        {
            mounts.volumes.insert(path.to_owned(), file);
        }
        let security = found.security_context.as_ref();
        if security.and_then(|own| own.read_only_root_filesystem) == Some(true) {
            mounts.read_only.insert("/".to_owned());
        }
        let image = found.image.clone().unwrap_or_default();
        let mut files = managed_files(&mounting, &hostname);
        files.extend(cgroup_files(snapshot, container));
        files.extend(sysctl_files(&spec));
        files.retain(|path, _| !mounts.volumes.contains_key(path));
        let workdir = found.working_dir.clone().filter(|folder| !folder.is_empty());
        let environment = Environment {
            variables,
            hostname,
            workdir: workdir.unwrap_or_else(|| "/".to_owned()),
            files,
            read_only: mounts.read_only,
            memory_mounts: mounts.memory,
            volumes: mounts.volumes,
            user,
            no_new_privileges: security.and_then(|own| own.allow_privilege_escalation) == Some(false),
            programs: known_image::programs(&image),
            disk: snapshot
                .disks
                .container(container, run, &namespace.disks, || self.image_files(&image, now)),
            first_process: first_process(snapshot, container, argv),
            answers: script.exec,
            now,
            terminal: None,
            memory,
            reservation: Some(Arc::new(reservation)),
            work: WorkMeter::default(),
        };
        Ok((environment, budget))
    }

    /// The pod as the API's own type: the object that the API has now, or what a client of CRI has made.
    ///
    /// # Errors
    /// The API does not answer, or has no such pod.
    pub(super) async fn object_of(&self, snapshot: &Snapshot) -> Result<Pod, ApiError> {
        let meta = &snapshot.record.pod.metadata;
        match &snapshot.endpoint {
            Some(view) => Ok(view.object(&snapshot.record)),
            None => self.client_of(snapshot).api::<Pod>().get(&meta.namespace, &meta.name).await,
        }
    }

    /// The files that an image brings.
    pub(super) fn image_files(&self, image: &str, now: i64) -> Vec<(&'static str, DiskEntry)> {
        let Some(known) = known_image::find(image) else { return Vec::new() };
        let mut all: Vec<_> =
            known.files.iter().map(|(path, text)| (*path, DiskEntry::file(text.as_bytes(), now))).collect();
        if known.has_certificate
            && let Ok(own) = self.own_certificate()
        {
            let shared = |bytes: &Arc<[u8]>| DiskEntry::new(Content::File(Arc::clone(bytes)), 0o644, now);
            let (chain, key) = known_image::CERTIFICATE;
            all.extend([(chain, shared(&own.chain)), (key, shared(&own.key))]);
        }
        all
    }

    /// What the node knows of the pod. The Node is read only for what the container wants of it.
    pub(super) async fn facts(
        &self,
        snapshot: &Snapshot,
        spec: &PodSpec,
        container: &Container,
    ) -> NodeFacts {
        let mut facts =
            NodeFacts { pod_ip: snapshot.machine.ip.map(|ip| ip.to_string()), ..NodeFacts::default() };
        let name = spec.node_name.as_deref().unwrap_or_default();
        if !wants_node(spec, container) {
            return facts;
        }
        let node = self.client.api::<Node>().get("", name).await.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let addresses = status.addresses.into_iter().flatten();
        facts.host_ips = addresses
            .filter(|address| address.type_ == "InternalIP")
            .map(|address| address.address)
            .collect();
        facts.allocatable = status.allocatable.unwrap_or_default();
        if spec.host_network == Some(true) {
            facts.pod_ip = facts.host_ips.first().cloned();
        }
        facts
    }

    async fn variables(
        &self,
        (pod, container): (&Pod, &Container),
        facts: &NodeFacts,
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
        let spec = pod.spec.clone().unwrap_or_default();
        let services = self.services(&namespace, spec.enable_service_links != Some(false)).await;
        // A variable may refer to those of Services.
        let known: BTreeMap<String, String> = services.iter().cloned().collect();
        for variable in container.env.iter().flatten() {
            let of = (pod, container, namespace.as_str());
            if let Some(value) = self.value(of, facts, variable, (&env, &known)).await? {
                env.set(variable.name.clone(), value)?;
            }
        }
        for (name, value) in services {
            if env.lookup(&name).is_none() {
                env.set(name, value)?;
            }
        }
        if env.lookup("HOME").is_none() {
            let home = if user::of(&spec, container).user == 0 { "/root" } else { "/" };
            env.set("HOME".to_owned(), home.to_owned())?;
        }
        Ok(env.list)
    }

    /// The variables of the Services of a namespace, if it is so, and of the API server.
    async fn services(&self, namespace: &str, has_links: bool) -> Vec<(String, String)> {
        let mut all = Vec::new();
        if has_links {
            let listed = self.client.api::<Service>().list(namespace, &ListParams::default()).await;
            all.extend(listed.map(|(services, _)| services).unwrap_or_default());
        }
        let is_known = namespace == API_SERVER.0 && has_links;
        if !is_known && let Ok(service) = self.client.api::<Service>().get(API_SERVER.0, API_SERVER.1).await {
            all.push(service);
        }
        services::variables(&all)
    }

    async fn value(
        &self,
        (pod, container, namespace): (&Pod, &Container, &str),
        facts: &NodeFacts,
        variable: &EnvVar,
        (env, services): (&Variables, &BTreeMap<String, String>),
    ) -> Result<Option<String>, TooLarge> {
        let Some(source) = &variable.value_from else {
            let text = variable.value.as_deref().unwrap_or_default();
            let value = |name: &str| env.lookup(name).or(services.get(name).map(String::as_str));
            return expand(text, |name| value(name).map(Cow::Borrowed))
                .map(Some)
                .map_err(|TooLong| ARGUMENTS);
        };
        if let Some(field) = &source.field_ref {
            return Ok(downward::field(pod, facts, field));
        }
        if let Some(wanted) = &source.resource_field_ref {
            let other = wanted.container_name.as_deref().filter(|name| *name != container.name);
            let other = other.and_then(|name| Some(container_of(pod.spec.as_ref()?, name)));
            return Ok(downward::resource(other.as_ref().unwrap_or(container), facts, wanted));
        }
        let (values, key) = match (&source.config_map_key_ref, &source.secret_key_ref) {
            (Some(map), _) => (self.config_map(namespace, &map.name).await, &map.key),
            (None, Some(secret)) => (self.secret(namespace, &secret.name).await, &secret.key),
            (None, None) => return Ok(None),
        };
        Ok(values.get(key).map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    pub(super) async fn config_map(&self, namespace: &str, name: &str) -> Values {
        let map = self.client.api::<ConfigMap>().get(namespace, name).await.unwrap_or_default();
        let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes().into()));
        texts.chain(map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0.into()))).collect()
    }

    pub(super) async fn secret(&self, namespace: &str, name: &str) -> Values {
        let secret = self.client.api::<Secret>().get(namespace, name).await.unwrap_or_default();
        secret.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0.into())).collect()
    }
}

/// The files that a kubelet manages.
fn managed_files(mounting: &Mounting<'_>, hostname: &str) -> BTreeMap<String, Arc<[u8]>> {
    let Mounting { spec, facts, .. } = mounting;
    let namespace = &mounting.snapshot.record.pod.metadata.namespace;
    let ip = facts.pod_ip.as_deref().unwrap_or_default();
    let all = [
        ("/etc/hostname", format!("{hostname}\n")),
        ("/etc/hosts", etc::hosts(spec, namespace, hostname, ip)),
        ("/etc/resolv.conf", etc::resolver(spec, namespace)),
    ];
    all.into_iter().map(|(path, text)| (path.to_owned(), Arc::from(text.into_bytes()))).collect()
}

/// The kernel parameters that the pod sets.
fn sysctl_files(spec: &PodSpec) -> impl Iterator<Item = (String, Arc<[u8]>)> {
    let all = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    all.map(|one| {
        let text = format!("{}\n", one.value);
        (format!("/proc/sys/{}", one.name.replace('.', "/")), Arc::from(text.into_bytes()))
    })
}

/// The files in which a container finds the resources that are in effect for it.
fn cgroup_files(snapshot: &Snapshot, container: &str) -> impl Iterator<Item = (String, Arc<[u8]>)> {
    let object = &snapshot.record.pod;
    let index = object.containers().position(|spec| spec.name == container);
    let own = index.and_then(|index| {
        let spec = object.container(index).map(|spec| &spec.resources);
        snapshot.machine.actual(object, index).or(spec)
    });
    let files = cgroup::files(own, object.spec.resources.as_deref());
    files.into_iter().map(|(path, text)| (path.to_owned(), Arc::from(text.into_bytes())))
}

/// The command line of the first process of a container; empty for the command that is that process.
pub(super) fn first_process(snapshot: &Snapshot, container: &str, argv: &[String]) -> String {
    let object = &snapshot.record.pod;
    let index = object.containers().position(|spec| spec.name == container);
    let line = index.map(|index| program::command_line(object, index)).unwrap_or_default();
    if line == argv.join(" ") { String::new() } else { line }
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

/// Whether a container gets something that its Node says: an address of the node, or what the node has.
fn wants_node(spec: &PodSpec, container: &Container) -> bool {
    let by_variables =
        container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()).any(|source| {
            source.resource_field_ref.is_some()
                || source.field_ref.as_ref().is_some_and(downward::needs_addresses)
        });
    by_variables || spec.host_network == Some(true) || spec.volumes.iter().flatten().any(volume::shows_pod)
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

    #[test]
    fn tens_of_thousands_of_variables_are_set_in_linear_time() {
        let mut env = Variables::default();
        let set = (0..).take_while(|number| env.set(format!("v{number}"), String::new()).is_ok()).count();
        assert!((100_000..1_000_000).contains(&set), "{set}");
        assert_eq!((env.lookup("v0"), env.lookup("w")), (Some(""), None));
    }
}

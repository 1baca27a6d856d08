//! Sandboxes and containers of clients of CRI as the pods that the simulation runs: their objects, and what is not in objects. Pure.

use crate::pod_object::PodObject;
use crate::record::PodRecord;
use k8s_openapi::api::core::v1::Pod;
use kstore_container_sim::User;
use kstore_proto::cri::v1::{
    ContainerConfig, LinuxContainerSecurityContext, NamespaceMode, PodSandboxConfig, SupplementalGroupsPolicy,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a pod of a client is beside its object: the messages from which it was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndpointPod {
    pub(super) sandbox: Arc<PodSandboxConfig>,
    /// The newest container of each name, in order of their first creation.
    pub(super) containers: Vec<EndpointContainer>,
}

/// A container as a client has created it.
#[derive(Clone, Debug)]
pub(super) struct EndpointContainer {
    pub(super) config: Arc<ContainerConfig>,
    /// Its image by name; the client may have named it by its id.
    pub(super) image: String,
}

impl EndpointContainer {
    /// Its name in the sandbox.
    pub(super) fn name(&self) -> &str {
        self.config.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
    }

    /// The user of its processes.
    pub(super) fn user(&self) -> User {
        let none = LinuxContainerSecurityContext::default();
        let linux = self.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        let context = linux.unwrap_or(&none);
        let number = |value: i64| u32::try_from(value).ok();
        let wanted = context.run_as_user.as_ref().and_then(|user| number(user.value));
        let group = context.run_as_group.as_ref().and_then(|group| number(group.value));
        let more: Vec<u32> = context.supplemental_groups.iter().copied().filter_map(number).collect();
        let merges = context.supplemental_groups_policy != i32::from(SupplementalGroupsPolicy::Strict);
        crate::known_image::user(&self.image, wanted, group, &more, merges)
    }

    /// Whether it cannot write its own root.
    pub(super) fn has_read_only_root(&self) -> bool {
        let linux = self.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        linux.is_some_and(|context| context.readonly_rootfs)
    }

    /// Whether its programs cannot gain privileges.
    pub(super) fn has_no_new_privileges(&self) -> bool {
        let linux = self.config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        linux.is_some_and(|context| context.no_new_privs)
    }
}

impl EndpointPod {
    /// The container of this name.
    pub(super) fn container(&self, name: &str) -> Option<&EndpointContainer> {
        self.containers.iter().find(|container| container.name() == name)
    }

    /// Whether the sandbox uses the network of the machine.
    pub(super) fn has_host_network(&self) -> bool {
        let linux = self.sandbox.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        let options = linux.and_then(|context| context.namespace_options.as_ref());
        options.is_some_and(|options| options.network == i32::from(NamespaceMode::Node))
    }

    /// The host name of the pod.
    pub(super) fn hostname(&self) -> &str {
        match (self.sandbox.hostname.as_str(), &self.sandbox.metadata) {
            ("", Some(metadata)) => metadata.name.get(..63).unwrap_or(&metadata.name),
            (name, _) => name,
        }
    }

    /// The content of `/etc/resolv.conf`.
    pub(super) fn resolver(&self) -> String {
        let Some(dns) = &self.sandbox.dns_config else { return String::new() };
        let mut text = String::new();
        if !dns.searches.is_empty() {
            text.push_str(&format!("search {}\n", dns.searches.join(" ")));
        }
        for server in &dns.servers {
            text.push_str(&format!("nameserver {server}\n"));
        }
        if !dns.options.is_empty() {
            text.push_str(&format!("options {}\n", dns.options.join(" ")));
        }
        text
    }

    /// The pod as an object of the API. Its uid is the id of the sandbox, since a pod may have several sandboxes.
    fn json(&self, id: &str, node: &str) -> Value {
        let metadata = self.sandbox.metadata.clone().unwrap_or_default();
        let ports: Vec<Value> = self.sandbox.port_mappings.iter().map(port).collect();
        let mut containers: Vec<Value> = self.containers.iter().map(container).collect();
        // The ports are of the sandbox, and it is not said of which container: of the first.
        if let Some(first) = containers.first_mut() {
            first["ports"] = Value::Array(ports);
        }
        json!({
            "metadata": {
                "name": metadata.name,
                "namespace": metadata.namespace,
                "uid": id,
                "labels": self.sandbox.labels,
                "annotations": self.sandbox.annotations,
            },
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": containers},
        })
    }

    /// The pod's record for the simulation.
    pub(super) fn record(&self, id: &str, node: &str) -> Result<PodRecord, serde_json::Error> {
        PodRecord::decode_labelled(self.json(id, node).to_string().as_bytes())
    }

    /// The pod as the API's own type.
    pub(super) fn object(&self, record: &PodRecord) -> Pod {
        let PodObject { metadata, spec, .. } = &record.pod;
        serde_json::from_value(self.json(&metadata.uid, &spec.node_name)).unwrap_or_default()
    }
}

fn port(mapping: &kstore_proto::cri::v1::PortMapping) -> Value {
    let protocol = match mapping.protocol {
        1 => "UDP",
        2 => "SCTP",
        _ => "TCP",
    };
    json!({"containerPort": mapping.container_port, "protocol": protocol})
}

fn container(container: &EndpointContainer) -> Value {
    let config = &container.config;
    json!({
        "name": container.name(),
        "image": container.image,
        "command": config.command,
        "args": config.args,
        "workingDir": config.working_dir,
        "stdin": config.stdin,
        "stdinOnce": config.stdin_once,
        "tty": config.tty,
    })
}

/// Variables of a container by name and value. A value that is not UTF-8 has replacements.
pub(super) fn variables(config: &ContainerConfig) -> impl Iterator<Item = (String, String)> {
    config.envs.iter().map(|env| (env.key.clone(), String::from_utf8_lossy(&env.value).into_owned()))
}

/// Whether all of these labels are among those of an object.
pub(super) fn has_labels(all: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(name, value)| all.get(name) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_proto::cri::v1::{ContainerMetadata, DnsConfig, PodSandboxMetadata, PortMapping};

    fn pod() -> EndpointPod {
        let metadata =
            PodSandboxMetadata { name: "p".into(), namespace: "n".into(), uid: "u".into(), attempt: 1 };
        let sandbox = PodSandboxConfig {
            metadata: Some(metadata),
            port_mappings: vec![PortMapping { container_port: 80, ..PortMapping::default() }],
            labels: [("app".to_owned(), "web".to_owned())].into(),
            annotations: [("kubelet-sim.kstore.io/exit-code".to_owned(), "3".to_owned())].into(),
            ..PodSandboxConfig::default()
        };
        let config = ContainerConfig {
            metadata: Some(ContainerMetadata { name: "c".into(), attempt: 0 }),
            command: vec!["sh".into()],
            stdin: true,
            ..ContainerConfig::default()
        };
        let container =
            EndpointContainer { config: Arc::new(config), image: "docker.io/library/nginx:1".into() };
        EndpointPod { sandbox: Arc::new(sandbox), containers: vec![container] }
    }

    #[test]
    fn a_sandbox_is_a_pod_with_the_id_of_the_sandbox_as_its_uid() {
        let record = pod().record("id", "node").unwrap();
        let PodObject { metadata, spec, .. } = &record.pod;
        assert_eq!((&*metadata.name, &*metadata.namespace, &*metadata.uid), ("p", "n", "id"));
        assert_eq!(record.labels["app"], "web");
        assert_eq!(metadata.annotations.len(), 1);
        let spec = &spec.containers[0];
        assert_eq!((&*spec.name, &*spec.image, spec.stdin), ("c", "docker.io/library/nginx:1", true));
        let object = pod().object(&record);
        let ports = object.spec.unwrap().containers[0].ports.clone().unwrap();
        assert_eq!((ports[0].container_port, ports[0].protocol.as_deref()), (80, Some("TCP")));
    }

    #[test]
    fn the_host_name_is_that_of_the_sandbox_or_of_the_pod() {
        let mut pod = pod();
        assert_eq!(pod.hostname(), "p");
        let mut sandbox = (*pod.sandbox).clone();
        sandbox.hostname = "h".to_owned();
        sandbox.dns_config = Some(DnsConfig {
            servers: vec!["10.0.0.1".to_owned()],
            searches: vec!["a.b".to_owned(), "b".to_owned()],
            options: vec!["ndots:5".to_owned()],
        });
        pod.sandbox = Arc::new(sandbox);
        assert_eq!(pod.hostname(), "h");
        assert_eq!(pod.resolver(), "search a.b b\nnameserver 10.0.0.1\noptions ndots:5\n");
    }
}

//! Generated Pods, equal in every run. A Pod has three labels, an owner and a container, which is less than a
//! real one.

use k8s_openapi::api::core::v1::{Container, Pod as KubePod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kstore_informer::{Index, Key, Object, Revision};

/// Number of objects per namespace.
pub(crate) const PER_NAMESPACE: usize = 1_000;
/// Number of objects per owner.
pub(crate) const PER_OWNER: usize = 10;

/// A Pod as kstore's informer holds it.
#[derive(Clone)]
pub(crate) struct Pod {
    key: Key,
    revision: Revision,
    pub(crate) pod: KubePod,
}

impl Object for Pod {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
    fn revision(&self) -> Revision {
        self.revision
    }
    fn controller(&self) -> Option<(String, Key)> {
        let owner = self.pod.metadata.owner_references.as_ref()?.first()?;
        Some((owner.uid.clone(), Key::new(self.key.namespace(), &owner.name)))
    }
}

impl Pod {
    pub(crate) fn new(number: usize, revision: u64) -> Self {
        Self { key: key(number), revision: Revision(revision), pod: kube_pod(number, revision) }
    }
}

/// The fields of a Pod that a scheduler reads.
#[derive(Clone)]
pub(crate) struct Slim {
    key: Key,
    uid: Box<str>,
    revision: Revision,
    node: Box<str>,
    owner: u32,
}

impl Object for Slim {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

impl Slim {
    pub(crate) fn new(number: usize, revision: u64) -> Self {
        Self {
            key: key(number),
            uid: uid(number).into(),
            revision: Revision(revision),
            node: node(number).into(),
            owner: u32::try_from(number / PER_OWNER).unwrap_or_default(),
        }
    }
}

/// A generated object for either cache.
pub(crate) trait Generated: Object + Clone {
    fn generate(number: usize, revision: u64) -> Self;
    fn node_of(&self) -> Option<&str>;
}

impl Generated for Pod {
    fn generate(number: usize, revision: u64) -> Self {
        Self::new(number, revision)
    }
    fn node_of(&self) -> Option<&str> {
        self.pod.spec.as_ref()?.node_name.as_deref()
    }
}

impl Generated for Slim {
    fn generate(number: usize, revision: u64) -> Self {
        Self::new(number, revision)
    }
    fn node_of(&self) -> Option<&str> {
        (self.owner < u32::MAX).then_some(&*self.node)
    }
}

pub(crate) fn by_node<T: Generated>() -> Index<T, Box<str>> {
    Index::new(|object: &T, emit: &mut dyn FnMut(Box<str>)| {
        object.node_of().map(Box::from).into_iter().for_each(emit);
    })
}

pub(crate) fn namespace(number: usize) -> String {
    format!("team-{:03}", number / PER_NAMESPACE)
}

pub(crate) fn name(number: usize) -> String {
    format!("web-{:05x}-{number:06}", number / PER_OWNER)
}

pub(crate) fn key(number: usize) -> Key {
    Key::new(&namespace(number), &name(number))
}

/// The node of a Pod: one of a hundred per hundred thousand Pods, across namespaces.
pub(crate) fn node(number: usize) -> String {
    format!("node-{:03}.example.internal", number % 100)
}

pub(crate) fn owner_uid(number: usize) -> String {
    uid(number / PER_OWNER + 10_000_000)
}

fn uid(number: usize) -> String {
    format!("8f14e45f-ceea-467f-a0e6-{number:012x}")
}

/// The numbers below `len` in a scrambled order; each occurs once if `len` is not a multiple of the step's
/// primes.
pub(crate) fn shuffled(len: usize) -> impl Iterator<Item = usize> + Clone {
    (0..len).map(move |at| at.wrapping_mul(77_777_777_777) % len)
}

pub(crate) fn kube_pod(number: usize, revision: u64) -> KubePod {
    let label = |key: &str, value: String| (key.to_owned(), value);
    let labels = [
        label("app", format!("web-{}", number / PER_OWNER)),
        label("pod-template-hash", format!("{:08x}", number / PER_OWNER)),
        label("tier", "frontend".to_owned()),
    ];
    let owner = OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: format!("web-{:05x}", number / PER_OWNER),
        uid: owner_uid(number),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let container = Container {
        name: "app".to_owned(),
        image: Some("registry.example/web:1.2.3".to_owned()),
        ..Container::default()
    };
    KubePod {
        metadata: ObjectMeta {
            name: Some(name(number)),
            namespace: Some(namespace(number)),
            uid: Some(uid(number)),
            resource_version: Some(revision.to_string()),
            labels: Some(labels.into_iter().collect()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![container],
            node_name: Some(node(number)),
            ..PodSpec::default()
        }),
        status: Some(PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() }),
    }
}

//! The objects that a pod needs before its volumes can be mounted and its containers created, and the
//! kubelet's messages if they are missing. Pure.

use super::source::{SourceKey, SourceKind, SourceState, Sources};
use super::{ClaimEntry, PodObject, shared_volume, sub_path};
use crate::behavior::{self, ImageUser};
use std::collections::BTreeSet;

/// An object that a volume contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeNeed {
    /// The volume.
    pub volume: String,
    /// The kind of the object.
    pub kind: SourceKind,
    /// The object's name. For an ephemeral volume, the volume's name, which follows the pod's name in the
    /// claim's. For a certificate, the position of the source in its volume.
    pub name: String,
    /// Whether the object is a claim that is created for this volume of this pod.
    pub is_ephemeral: bool,
    /// The keys in the volume's items.
    pub keys: Vec<String>,
    /// Whether the volume can be mounted without the object and its keys.
    pub optional: bool,
}

/// An object from which a container takes environment variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvNeed {
    /// The kind of the object.
    pub kind: SourceKind,
    /// The object's name.
    pub name: String,
    /// The key; `None` for all keys (`envFrom`).
    pub key: Option<String>,
    /// Whether the container can be created without it.
    pub optional: bool,
}

/// The value of an environment variable, as far as sub-paths need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// A text, in which `$(NAME)` refers to an earlier variable.
    Text(String),
    /// The value of an annotation of the pod, which may be missing.
    Annotation(String),
    /// A value from the pod or another object, which the kubelet fills in.
    Filled,
}

/// The needs of a container before it is created. Most containers have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerNeeds {
    /// Environment sources in the kubelet's order: `envFrom`, then `env`.
    pub env: Vec<EnvNeed>,
    /// Its mounts, other than that of the service account's token.
    pub mounts: Vec<MountedVolume>,
    /// The `subPathExpr` of its volume mounts.
    pub sub_paths: Vec<String>,
    /// The container's environment variables, in order; empty if it has no sub-paths.
    pub values: Vec<(String, EnvValue)>,
}

/// A volume that a container mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountedVolume {
    /// The volume.
    pub volume: String,
    /// Where the container sees it.
    pub path: String,
}

/// Whether a pod's volumes can be mounted or a container created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// All needs are met.
    Ready,
    /// The API has not answered yet.
    Unknown,
    /// Needs are not met; has the kubelet's messages.
    Blocked(Vec<String>),
}

/// The objects that the pod refers to.
pub fn references(pod: &PodObject) -> BTreeSet<SourceKey> {
    let volumes = pod.spec.volumes.needs.iter().map(|need| need.key(pod));
    let env = pod.containers().filter_map(|spec| spec.needs.as_deref());
    let env = env.flat_map(|needs| &needs.env).map(|need| key(pod, need.kind, &need.name));
    let entries = pod.spec.resource_claims.iter().filter_map(|entry| claim_of(pod, entry).flatten());
    let of_resources =
        pod.status.extended_resource_claim_status.iter().map(|claim| &*claim.resource_claim_name);
    let devices = entries.chain(of_resources).map(|name| key(pod, SourceKind::ResourceClaim, name));
    volumes.chain(env).chain(devices).chain(pull_secrets(pod)).collect()
}

/// The secrets with which the images of a simulated pod are pulled.
fn pull_secrets(pod: &PodObject) -> impl Iterator<Item = SourceKey> {
    // The client of a container runtime reads them itself.
    let all =
        pod.spec.image_pull_secrets.iter().filter(|secret| !secret.name.is_empty() && !pod.spec.is_real);
    all.map(|secret| key(pod, SourceKind::Secret, &secret.name))
}

/// Whether it is known which of the secrets are there with which the images of a pod are pulled. The messages are those of
/// `FailedToRetrieveImagePullSecret` events: pulls are tried without them.
pub fn pulls(pod: &PodObject, sources: &Sources) -> Readiness {
    let mut missing = Vec::new();
    for secret in pull_secrets(pod) {
        match sources.get(&secret) {
            None => return Readiness::Unknown,
            Some(SourceState::Missing) => missing.push(secret.name),
            Some(_) => {}
        }
    }
    match missing.is_empty() {
        true => Readiness::Ready,
        false => Readiness::Blocked(vec![format!(
            "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
            missing.join(", ")
        )]),
    }
}

/// The name of the claim of an entry: `Some(None)` if the status says that the entry needs none, `None` if the
/// claim was not created from its template yet.
fn claim_of<'p>(pod: &'p PodObject, entry: &'p ClaimEntry) -> Option<Option<&'p str>> {
    if let Some(name) = &entry.resource_claim_name {
        return Some(Some(name));
    }
    let mut statuses = pod.status.resource_claim_statuses.iter().flatten();
    let status = statuses.find(|status| status.name == entry.name)?;
    Some(status.resource_claim_name.as_deref())
}

/// Whether the pod may use its resource claims, that for extended resources among them. The messages are those of
/// `FailedPrepareDynamicResources` events.
pub fn devices(pod: &PodObject, sources: &Sources) -> Readiness {
    let of_entries = pod.spec.resource_claims.iter().map(|entry| claim_of(pod, entry));
    let of_resources = pod.status.extended_resource_claim_status.iter();
    for claim in of_entries.chain(of_resources.map(|claim| Some(Some(&*claim.resource_claim_name)))) {
        let problem = match claim {
            Some(None) => continue,
            None => {
                format!(
                    "pod \"{}/{}\": ResourceClaim not created yet",
                    pod.metadata.namespace, pod.metadata.name
                )
            }
            Some(Some(name)) => match sources.get(&key(pod, SourceKind::ResourceClaim, name)) {
                None => return Readiness::Unknown,
                Some(SourceState::Present(pods)) if pods.contains(&pod.metadata.uid) => continue,
                Some(SourceState::Missing) => {
                    format!("fetch ResourceClaim {name}: resourceclaims.resource.k8s.io \"{name}\" not found")
                }
                Some(SourceState::Present(_) | SourceState::Unbound | SourceState::Refused(_)) => format!(
                    "pod {} ({}) is not allowed to use ResourceClaim {name}",
                    pod.metadata.name, pod.metadata.uid
                ),
            },
        };
        let problem = format!("Failed to prepare dynamic resources: prepare dynamic resources: {problem}");
        return Readiness::Blocked(vec![problem]);
    }
    Readiness::Ready
}

impl VolumeNeed {
    /// Identifies the object.
    pub fn key(&self, pod: &PodObject) -> SourceKey {
        let Self { volume, name, .. } = self;
        match (self.kind, self.is_ephemeral) {
            (SourceKind::PodCertificate, _) => {
                key(pod, self.kind, &format!("{}/{volume}/{name}", pod.metadata.uid))
            }
            (_, true) => key(pod, self.kind, &format!("{}-{name}", pod.metadata.name)),
            (_, false) => key(pod, self.kind, name),
        }
    }
}

fn key(pod: &PodObject, kind: SourceKind, name: &str) -> SourceKey {
    let namespace = match kind {
        SourceKind::TrustBundle => String::new(),
        SourceKind::ConfigMap
        | SourceKind::Secret
        | SourceKind::Claim
        | SourceKind::ResourceClaim
        | SourceKind::PodCertificate => pod.metadata.namespace.clone(),
    };
    SourceKey { kind, namespace, name: name.to_owned() }
}

fn not_found(kind: SourceKind, name: &str) -> String {
    format!("{} \"{name}\" not found", kind.resource())
}

/// Whether the volumes of a pod can be mounted. The messages are those of `FailedMount` events, one per
/// volume.
pub fn volumes(pod: &PodObject, sources: &Sources) -> Readiness {
    let needs = pod.spec.volumes.needs.as_slice();
    let mut messages = Vec::new();
    for of_volume in needs.chunk_by(|a, b| a.volume == b.volume) {
        let mut problems = Vec::new();
        for need in of_volume {
            match sources.get(&need.key(pod)) {
                None => return Readiness::Unknown,
                Some(state) => problems.extend(volume_problem(pod, need, state)),
            }
        }
        let problem = match problems.as_slice() {
            [] => continue,
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let volume = &of_volume[0].volume;
        messages.push(if of_volume[0].kind == SourceKind::Claim {
            format!(
                "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], \
                 failed to process volumes=[{volume}]: {problem}"
            )
        } else {
            format!("MountVolume.SetUp failed for volume \"{volume}\" : {problem}")
        });
    }
    if messages.is_empty() { Readiness::Ready } else { Readiness::Blocked(messages) }
}

fn volume_problem(pod: &PodObject, need: &VolumeNeed, state: &SourceState) -> Option<String> {
    let name = need.key(pod).name;
    let of_claim = |why: &str| format!("error processing PVC {}/{name}: {why}", pod.metadata.namespace);
    match (state, need.kind) {
        _ if need.optional => None,
        (SourceState::Missing, SourceKind::Claim) => Some(of_claim(&format!(
            "failed to fetch PVC from API server: persistentvolumeclaims \"{name}\" not found"
        ))),
        (SourceState::Unbound, _) => Some(of_claim("PVC is not bound")),
        (SourceState::Refused(why), _) => Some(why.clone()),
        (SourceState::Missing, SourceKind::PodCertificate) => {
            Some("credential bundle is not issued yet".to_owned())
        }
        (SourceState::Missing, kind) => Some(not_found(kind, &name)),
        (SourceState::Present(keys), kind) => {
            let missing = need.keys.iter().find(|key| !keys.contains(*key))?;
            Some(match kind {
                SourceKind::ConfigMap => format!("configmap references non-existent config key: {missing}"),
                SourceKind::Secret
                | SourceKind::Claim
                | SourceKind::TrustBundle
                | SourceKind::ResourceClaim
                | SourceKind::PodCertificate => {
                    format!("references non-existent secret key: {missing}")
                }
            })
        }
    }
}

/// Whether a container can be created. The message is that of the waiting reason
/// `CreateContainerConfigError`.
pub fn container(pod: &PodObject, index: usize, sources: &Sources) -> Readiness {
    let Some(spec) = pod.container(index) else { return Readiness::Ready };
    if let Some(refusal) = spec.program.as_ref().and_then(|program| program.refusal.as_deref()) {
        return Readiness::Blocked(vec![refusal.to_owned()]);
    }
    if let Some(needs) = spec.needs.as_deref() {
        for need in &needs.env {
            match sources.get(&key(pod, need.kind, &need.name)) {
                None => return Readiness::Unknown,
                Some(state) => {
                    if let Some(problem) = env_problem(pod, need, state) {
                        return Readiness::Blocked(vec![problem]);
                    }
                }
            }
        }
        if let Some(problem) = sub_path::problem(&needs.sub_paths, &needs.values, &pod.metadata.annotations) {
            return Readiness::Blocked(vec![problem]);
        }
    }
    let problem = root_problem(pod, index).or_else(|| shared_volume::problem(pod, index));
    match problem {
        Some(problem) => Readiness::Blocked(vec![problem]),
        None => Readiness::Ready,
    }
}

fn env_problem(pod: &PodObject, need: &EnvNeed, state: &SourceState) -> Option<String> {
    match (state, &need.key) {
        _ if need.optional => None,
        (SourceState::Missing, _) => Some(not_found(need.kind, &need.name)),
        (SourceState::Present(keys), Some(key)) if !keys.contains(key) => {
            let kind = if need.kind == SourceKind::ConfigMap { "ConfigMap" } else { "Secret" };
            let (namespace, name) = (&pod.metadata.namespace, &need.name);
            Some(format!("couldn't find key {key} in {kind} {namespace}/{name}"))
        }
        (SourceState::Present(_) | SourceState::Unbound | SourceState::Refused(_), _) => None,
    }
}

/// The kubelet's error for a container with `runAsNonRoot`. An image without a scripted user runs as root.
fn root_problem(pod: &PodObject, index: usize) -> Option<String> {
    let spec = pod.container(index)?;
    let (own, general) = (&spec.security_context, &pod.spec.security_context);
    if own.run_as_non_root.or(general.run_as_non_root) != Some(true) {
        return None;
    }
    let whose = format!("(pod: \"{}\", container: {})", pod.full_name(), spec.name);
    match own.run_as_user.or(general.run_as_user) {
        Some(0) => return Some(format!("container's runAsUser breaks non-root policy {whose}")),
        Some(_) => return None,
        None => {}
    }
    if spec.program.is_some() || pod.spec.is_real {
        // Such a program then runs as a user that is not root, and a runtime knows the user of an image.
        return None;
    }
    let script = behavior::script(&pod.metadata.annotations, &spec.name);
    match script.image_user {
        None | Some(ImageUser::Id(0)) => {
            Some(format!("container has runAsNonRoot and image will run as root {whose}"))
        }
        Some(ImageUser::Id(_)) => None,
        Some(ImageUser::Name(name)) => Some(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {whose}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &str) -> PodObject {
        let text = format!("{{metadata: {{name: p, namespace: ns, uid: u}}, spec: {spec}}}");
        serde_yaml_ng::from_str(&text).unwrap()
    }

    fn sources(present: &[(SourceKind, &str, &[&str])], missing: &[(SourceKind, &str)]) -> Sources {
        let mut sources = Sources::default();
        let key = |kind, name: &str| SourceKey { kind, namespace: "ns".into(), name: name.into() };
        for (kind, name, keys) in present {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            sources.set(key(*kind, name), SourceState::Present(keys));
        }
        for (kind, name) in missing {
            sources.set(key(*kind, name), SourceState::Missing);
        }
        sources
    }

    fn blocked(message: &str) -> Readiness {
        Readiness::Blocked(vec![message.to_owned()])
    }

    #[test]
    fn a_container_of_this_machine_waits_while_none_can_be_confined() {
        let mut pod = pod("{securityContext: {runAsNonRoot: true}, containers: [{name: c}]}");
        let mut of = |refusal: Option<&str>| {
            let path = std::sync::Arc::from(std::path::Path::new("/bin/true"));
            let program = kstore_host_runtime::MappedProgram { path, refusal: refusal.map(Into::into) };
            pod.spec.containers[0].program = Some(std::sync::Arc::new(program));
            container(&pod, 0, &Sources::default())
        };
        assert_eq!(of(Some("cannot be confined")), blocked("cannot be confined"));
        assert_eq!(of(None), Readiness::Ready, "it does not run as root");
    }

    use SourceKind::{Claim, ConfigMap, ResourceClaim, Secret};

    #[test]
    fn a_pod_waits_until_its_resource_claims_are_reserved_for_it() {
        let of = |status: &str| {
            let entries = "[{name: a, resourceClaimName: x}, {name: b, resourceClaimTemplateName: t}]";
            let text = format!(
                "{{metadata: {{name: p, namespace: ns, uid: u}}, spec: {{resourceClaims: {entries}}}, status: {status}}}"
            );
            serde_yaml_ng::from_str::<PodObject>(&text).unwrap()
        };
        let why = |text: &str| {
            blocked(&format!("Failed to prepare dynamic resources: prepare dynamic resources: {text}"))
        };
        let pod = of("{resourceClaimStatuses: [{name: b, resourceClaimName: p-b}]}");
        assert_eq!(references(&pod).len(), 2);
        assert_eq!(devices(&pod, &Sources::default()), Readiness::Unknown);
        let found = devices(&pod, &sources(&[], &[(ResourceClaim, "x")]));
        assert_eq!(found, why("fetch ResourceClaim x: resourceclaims.resource.k8s.io \"x\" not found"));
        let found =
            devices(&pod, &sources(&[(ResourceClaim, "x", &["u"]), (ResourceClaim, "p-b", &["v"])], &[]));
        assert_eq!(found, why("pod p (u) is not allowed to use ResourceClaim p-b"));
        let reserved = sources(&[(ResourceClaim, "x", &["v", "u"]), (ResourceClaim, "p-b", &["u"])], &[]);
        assert_eq!(devices(&pod, &reserved), Readiness::Ready);
        assert_eq!(devices(&of("{}"), &reserved), why("pod \"ns/p\": ResourceClaim not created yet"));
        assert_eq!(devices(&of("{resourceClaimStatuses: [{name: b}]}"), &reserved), Readiness::Ready);
    }

    #[test]
    fn a_pod_waits_until_the_claim_for_its_extended_resources_is_reserved_for_it() {
        let text = "{metadata: {name: p, namespace: ns, uid: u}, spec: {}, \
            status: {extendedResourceClaimStatus: {resourceClaimName: p-extended-resources-x}}}";
        let pod = serde_yaml_ng::from_str::<PodObject>(text).unwrap();
        let name = "p-extended-resources-x";
        assert_eq!(references(&pod), [key(&pod, ResourceClaim, name)].into());
        assert_eq!(devices(&pod, &Sources::default()), Readiness::Unknown);
        let why = "Failed to prepare dynamic resources: prepare dynamic resources: \
            pod p (u) is not allowed to use ResourceClaim p-extended-resources-x";
        assert_eq!(devices(&pod, &sources(&[(ResourceClaim, name, &["v"])], &[])), blocked(why));
        assert_eq!(devices(&pod, &sources(&[(ResourceClaim, name, &["u"])], &[])), Readiness::Ready);
    }

    #[test]
    fn a_pod_waits_for_the_certificate_of_each_source() {
        let pod =
            pod("{volumes: [{name: c, projected: {sources: [{}, {podCertificate: {signerName: s}}]}}]}");
        let all: Vec<SourceKey> = references(&pod).into_iter().collect();
        let name = "u/c/1".to_owned();
        let key = SourceKey { kind: SourceKind::PodCertificate, namespace: "ns".into(), name };
        assert_eq!(all, std::slice::from_ref(&key));
        let of = |state: SourceState| {
            let mut known = Sources::default();
            known.set(key.clone(), state);
            volumes(&pod, &known)
        };
        let why = |text: &str| blocked(&format!("MountVolume.SetUp failed for volume \"c\" : {text}"));
        assert_eq!(volumes(&pod, &Sources::default()), Readiness::Unknown);
        assert_eq!(of(SourceState::Missing), why("credential bundle is not issued yet"));
        assert_eq!(of(SourceState::Refused("no".to_owned())), why("no"));
        assert_eq!(of(SourceState::Present([].into())), Readiness::Ready);
    }

    #[test]
    fn a_pod_without_references_needs_nothing() {
        let plain = pod(
            "{containers: [{name: c, image: i, env: [{name: A, value: b}]}], volumes: [{name: v, emptyDir: {}}]}",
        );
        assert!(references(&plain).is_empty());
        assert_eq!((plain.spec.volumes.needs.len(), &plain.spec.containers[0].needs), (0, &None));
        let known = Sources::default();
        assert_eq!(
            (volumes(&plain, &known), container(&plain, 0, &known)),
            (Readiness::Ready, Readiness::Ready)
        );
    }

    #[test]
    fn a_pod_does_not_wait_for_the_certificate_that_admission_mounts() {
        let volume = |name: &str| {
            format!(
                "{{containers: [], volumes: [{{name: {name}, projected: {{sources: [{{serviceAccountToken: {{path: token}}}}, \
                 {{configMap: {{name: kube-root-ca.crt}}}}, {{downwardAPI: {{}}}}]}}}}]}}"
            )
        };
        assert!(references(&pod(&volume("kube-api-access-abcde"))).is_empty());
        assert_eq!(references(&pod(&volume("own"))).len(), 1);
    }

    #[test]
    fn volumes_wait_for_their_objects_and_keys_unless_optional() {
        let cases = [
            (
                "{name: v, configMap: {name: x}}",
                "MountVolume.SetUp failed for volume \"v\" : configmap \"x\" not found",
            ),
            (
                "{name: v, secret: {secretName: x}}",
                "MountVolume.SetUp failed for volume \"v\" : secret \"x\" not found",
            ),
            (
                "{name: v, configMap: {name: y, items: [{key: k, path: p}]}}",
                "MountVolume.SetUp failed for volume \"v\" : configmap references non-existent config key: k",
            ),
            (
                "{name: v, secret: {secretName: y, items: [{key: k, path: p}]}}",
                "MountVolume.SetUp failed for volume \"v\" : references non-existent secret key: k",
            ),
            (
                "{name: v, projected: {sources: [{configMap: {name: x}}, {secret: {name: x}}, {downwardAPI: {}}]}}",
                "MountVolume.SetUp failed for volume \"v\" : [configmap \"x\" not found, secret \"x\" not found]",
            ),
            (
                "{name: v, persistentVolumeClaim: {claimName: x}}",
                "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process \
                 volumes=[v]: error processing PVC ns/x: failed to fetch PVC from API server: persistentvolumeclaims \"x\" not found",
            ),
            (
                "{name: v, persistentVolumeClaim: {claimName: unbound}}",
                "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process \
                 volumes=[v]: error processing PVC ns/unbound: PVC is not bound",
            ),
            (
                "{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}",
                "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process \
                 volumes=[v]: error processing PVC ns/p-v: PVC is not bound",
            ),
        ];
        let mut known = sources(
            &[(ConfigMap, "y", &["j"]), (Secret, "y", &["j"]), (Claim, "bound", &[])],
            &[(ConfigMap, "x"), (Secret, "x"), (Claim, "x")],
        );
        let claim = |name: &str| SourceKey { kind: Claim, namespace: "ns".into(), name: name.into() };
        known.set(claim("unbound"), SourceState::Unbound);
        known.set(claim("p-v"), SourceState::Unbound);
        let of = |volume: &str| pod(&format!("{{containers: [{{name: c, image: i}}], volumes: [{volume}]}}"));
        for (volume, message) in cases {
            assert_eq!(volumes(&of(volume), &known), blocked(message));
            assert_eq!(volumes(&of(volume), &Sources::default()), Readiness::Unknown, "{volume}");
        }
        for volume in [
            "{name: v, configMap: {name: x, optional: true}}",
            "{name: v, secret: {secretName: y, optional: true, items: [{key: k, path: p}]}}",
            "{name: v, projected: {sources: [{configMap: {name: x, optional: true}}]}}",
            "{name: v, configMap: {name: y, items: [{key: j, path: p}]}}",
            "{name: v, persistentVolumeClaim: {claimName: bound}}",
        ] {
            assert_eq!(volumes(&of(volume), &known), Readiness::Ready, "{volume}");
        }
    }

    #[test]
    fn environments_wait_for_their_objects_and_keys_unless_optional() {
        let cases = [
            ("envFrom: [{configMapRef: {name: x}}]", "configmap \"x\" not found"),
            ("envFrom: [{secretRef: {name: x}}]", "secret \"x\" not found"),
            ("env: [{name: A, valueFrom: {secretKeyRef: {name: x, key: k}}}]", "secret \"x\" not found"),
            (
                "env: [{name: A, valueFrom: {configMapKeyRef: {name: y, key: k}}}]",
                "couldn't find key k in ConfigMap ns/y",
            ),
            (
                "env: [{name: A, valueFrom: {secretKeyRef: {name: y, key: k}}}]",
                "couldn't find key k in Secret ns/y",
            ),
        ];
        let known =
            sources(&[(ConfigMap, "y", &["j"]), (Secret, "y", &["j"])], &[(ConfigMap, "x"), (Secret, "x")]);
        let of = |env: &str| pod(&format!("{{containers: [{{name: c, image: i, {env}}}]}}"));
        for (env, message) in cases {
            assert_eq!(container(&of(env), 0, &known), blocked(message));
            assert_eq!(container(&of(env), 0, &Sources::default()), Readiness::Unknown, "{env}");
            let optional = env
                .replace("name: x", "name: x, optional: true")
                .replace("name: y", "name: y, optional: true");
            assert_eq!(container(&of(&optional), 0, &known), Readiness::Ready, "{optional}");
        }
    }

    #[test]
    fn sub_paths_are_filled_in_and_stay_in_their_volume() {
        let of = |env: &str, path: &str| {
            let mount = format!("volumeMounts: [{{name: v, mountPath: /m, subPathExpr: \"{path}\"}}]");
            container(
                &pod(&format!("{{containers: [{{name: c, image: i, env: [{env}], {mount}}}]}}")),
                0,
                &Sources::default(),
            )
        };
        let name = "{name: P, valueFrom: {fieldRef: {fieldPath: metadata.name}}}";
        assert_eq!(of(name, "logs/$(P)"), Readiness::Ready);
        assert_eq!(of("", "$(B)/$(A)"), blocked("missing value for A, B"));
        assert_eq!(of("{name: A, value: ''}", "$(A)"), blocked("missing value for A"));
        assert_eq!(
            of("{name: A, value: /x}", "$(A)"),
            blocked("error SubPath `/x` must not be an absolute path")
        );
        assert_eq!(
            of("{name: B, value: ..}, {name: A, value: $(B)/x}", "y/$(A)"),
            blocked("unable to provision SubPath `y/../x`: must not contain '..'")
        );
        assert_eq!(of("", "$$(A)"), Readiness::Ready, "an escaped dollar");
    }

    #[test]
    fn a_sub_path_of_an_annotation_waits_until_the_pod_has_it() {
        let mut pod = pod("{containers: [{name: c, image: i, \
             env: [{name: N, value: foo}, {name: A, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['path']\"}}}], \
             volumeMounts: [{name: v, mountPath: /m, subPathExpr: $(A)/$(N)}]}]}");
        let mut of = |annotation: Option<&str>| {
            let annotation = annotation.map(|text| ("path".to_owned(), text.to_owned()));
            pod.metadata.annotations = annotation.into_iter().collect();
            container(&pod, 0, &Sources::default())
        };
        assert_eq!(of(None), blocked("missing value for A"));
        assert_eq!(of(Some("mypath")), Readiness::Ready);
        assert_eq!(of(Some("/tmp")), blocked("error SubPath `/tmp/foo` must not be an absolute path"));
    }

    #[test]
    fn non_root_containers_need_a_user_that_is_not_root() {
        let whose = "(pod: \"p_ns(u)\", container: c)";
        let of = |general: &str, own: &str, user: Option<&str>| {
            let spec = format!(
                "{{securityContext: {{{general}}}, containers: [{{name: c, image: i, securityContext: {{{own}}}}}]}}"
            );
            let mut pod = pod(&spec);
            let user = user.map(|user| ("kubelet-sim.kstore.io/image-user".to_owned(), user.to_owned()));
            pod.metadata.annotations = user.into_iter().collect();
            container(&pod, 0, &Sources::default())
        };
        let breaks = blocked(&format!("container's runAsUser breaks non-root policy {whose}"));
        let root = blocked(&format!("container has runAsNonRoot and image will run as root {whose}"));
        assert_eq!(of("", "", None), Readiness::Ready);
        assert_eq!(of("runAsUser: 0", "", None), Readiness::Ready);
        assert_eq!(of("runAsNonRoot: true, runAsUser: 0", "", None), breaks);
        assert_eq!(of("runAsUser: 0", "runAsNonRoot: true", None), breaks);
        assert_eq!(of("runAsNonRoot: true, runAsUser: 0", "runAsUser: 7", None), Readiness::Ready);
        assert_eq!(of("runAsNonRoot: true", "runAsNonRoot: false", None), Readiness::Ready);
        assert_eq!(of("runAsNonRoot: true", "", None), root);
        assert_eq!(of("runAsNonRoot: true", "", Some("0")), root);
        assert_eq!(of("runAsNonRoot: true", "", Some("65532")), Readiness::Ready);
        let named =
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root";
        assert_eq!(of("runAsNonRoot: true", "", Some("app")), blocked(&format!("{named} {whose}")));
    }
}

//! Decoding of the parts of a Pod that are kept only as extracts: containers, environments and volumes. The
//! extracts are defined in `needs`.

use super::needs::{ContainerNeeds, EnvNeed, EnvValue, MountedVolume, VolumeNeed};
use super::options::{ContainerOptions, Lifecycle, PortSpec, RestartRule, TERMINATION_LOG};
use super::source::SourceKind;
use super::{ContainerSpec, PodVolumes, ProbeSpec, PullPolicy, RestartPolicy, SecurityContext};
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// A container in the API's form.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawContainer {
    name: String,
    image: String,
    image_pull_policy: Option<PullPolicy>,
    restart_policy: Option<RestartPolicy>,
    startup_probe: Option<ProbeSpec>,
    readiness_probe: Option<ProbeSpec>,
    liveness_probe: Option<ProbeSpec>,
    resources: ResourceRequirements,
    security_context: Option<SecurityContext>,
    stdin: bool,
    stdin_once: bool,
    tty: bool,
    command: Option<Vec<String>>,
    args: Option<Vec<String>>,
    env: Option<Vec<RawVariable>>,
    env_from: Option<Vec<RawEnvFrom>>,
    volume_mounts: Option<Vec<RawMount>>,
    ports: Option<Vec<PortSpec>>,
    lifecycle: Option<Lifecycle>,
    restart_policy_rules: Option<Vec<RestartRule>>,
    resize_policy: Option<Vec<RawResizePolicy>>,
    termination_message_path: Option<String>,
    termination_message_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawResizePolicy {
    resource_name: String,
    restart_policy: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVariable {
    name: String,
    value: Option<String>,
    value_from: Option<RawValueFrom>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawValueFrom {
    field_ref: Option<RawField>,
    config_map_key_ref: Option<RawSource>,
    secret_key_ref: Option<RawSource>,
}

/// A field of the pod.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawField {
    field_path: String,
}

impl RawField {
    /// The annotation that it is.
    fn annotation(&self) -> Option<String> {
        let key = self.field_path.strip_prefix("metadata.annotations['")?.strip_suffix("']")?;
        Some(key.to_owned())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawEnvFrom {
    config_map_ref: Option<RawSource>,
    secret_ref: Option<RawSource>,
}

/// A reference to a ConfigMap or Secret, in any of its forms.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSource {
    name: String,
    secret_name: String,
    key: String,
    optional: Option<bool>,
    items: Option<Vec<RawItem>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawItem {
    key: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMount {
    name: String,
    mount_path: String,
    sub_path_expr: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolume {
    name: String,
    config_map: Option<RawSource>,
    secret: Option<RawSource>,
    persistent_volume_claim: Option<RawClaim>,
    ephemeral: Option<IgnoredAny>,
    projected: Option<RawProjected>,
    #[serde(rename = "downwardAPI")]
    downward_api: Option<IgnoredAny>,
}

impl RawVolume {
    /// Whether programs write to it. The others show objects of the API.
    fn is_written(&self) -> bool {
        self.config_map.is_none()
            && self.secret.is_none()
            && self.projected.is_none()
            && self.downward_api.is_none()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawClaim {
    claim_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawProjected {
    sources: Option<Vec<RawProjection>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawProjection {
    config_map: Option<RawSource>,
    secret: Option<RawSource>,
    cluster_trust_bundle: Option<RawSource>,
    pod_certificate: Option<IgnoredAny>,
}

/// The keys of a ConfigMap or Secret; values are skipped.
pub(crate) type Keys = std::collections::BTreeMap<String, IgnoredAny>;

impl From<RawContainer> for ContainerSpec {
    fn from(raw: RawContainer) -> Self {
        let needs = needs(raw.env_from, raw.env, raw.volume_mounts);
        let resize = raw.resize_policy.into_iter().flatten();
        let options = ContainerOptions {
            ports: raw.ports.unwrap_or_default(),
            lifecycle: raw.lifecycle.unwrap_or_default(),
            restart_rules: raw.restart_policy_rules.unwrap_or_default(),
            restart_on_resize: resize
                .filter(|policy| policy.restart_policy == "RestartContainer")
                .map(|policy| policy.resource_name)
                .collect(),
            termination_message_path: raw.termination_message_path.filter(|path| path != TERMINATION_LOG),
            falls_back_to_logs: raw.termination_message_policy.as_deref() == Some("FallbackToLogsOnError"),
        };
        Self {
            name: raw.name,
            image: raw.image,
            image_pull_policy: raw.image_pull_policy,
            restart_policy: raw.restart_policy,
            startup_probe: raw.startup_probe,
            readiness_probe: raw.readiness_probe,
            liveness_probe: raw.liveness_probe,
            resources: raw.resources,
            security_context: raw.security_context.unwrap_or_default(),
            stdin: raw.stdin,
            stdin_once: raw.stdin_once,
            tty: raw.tty,
            command: raw.command.unwrap_or_default(),
            args: raw.args.unwrap_or_default(),
            needs: (needs != ContainerNeeds::default()).then(|| Box::new(needs)),
            options: (options != ContainerOptions::default()).then(|| Box::new(options)),
            program: None,
        }
    }
}

fn needs(
    env_from: Option<Vec<RawEnvFrom>>,
    env: Option<Vec<RawVariable>>,
    mounts: Option<Vec<RawMount>>,
) -> ContainerNeeds {
    let mut needs = ContainerNeeds::default();
    for mount in mounts.into_iter().flatten() {
        needs.sub_paths.extend(mount.sub_path_expr.filter(|expr| !expr.is_empty()));
        // Each container has that of the token.
        if !mount.name.starts_with(API_ACCESS) {
            needs.mounts.push(MountedVolume { volume: mount.name, path: mount.mount_path });
        }
    }
    for from in env_from.into_iter().flatten() {
        needs.env.extend(env_need(from.config_map_ref, from.secret_ref, false));
    }
    for variable in env.into_iter().flatten() {
        let value = match variable.value_from {
            None => EnvValue::Text(variable.value.unwrap_or_default()),
            Some(from) => {
                needs.env.extend(env_need(from.config_map_key_ref, from.secret_key_ref, true));
                let annotation = from.field_ref.as_ref().and_then(RawField::annotation);
                annotation.map_or(EnvValue::Filled, EnvValue::Annotation)
            }
        };
        if !needs.sub_paths.is_empty() {
            needs.values.push((variable.name, value));
        }
    }
    needs
}

fn env_need(config_map: Option<RawSource>, secret: Option<RawSource>, keyed: bool) -> Option<EnvNeed> {
    let (kind, source) = match (config_map, secret) {
        (Some(source), _) => (SourceKind::ConfigMap, source),
        (None, Some(source)) => (SourceKind::Secret, source),
        (None, None) => return None,
    };
    if source.name.is_empty() {
        return None;
    }
    let optional = source.optional == Some(true);
    Some(EnvNeed { kind, name: source.name, key: keyed.then_some(source.key), optional })
}

/// Prefix of the name of the token volume that admission adds to pods.
const API_ACCESS: &str = "kube-api-access-";
/// The ConfigMap with the API server's CA certificate. A controller creates it in every namespace. Kubelets
/// wait for it, simulated ones do not: without controllers it does not exist, and watching it in each of
/// thousands of namespaces would be useless.
const ROOT_CA: &str = "kube-root-ca.crt";

/// A pod's volumes, and the objects in them, in the order of the volumes.
pub(super) fn volumes<'de, D: Deserializer<'de>>(from: D) -> Result<PodVolumes, D::Error> {
    let raw: Option<Vec<RawVolume>> = Deserialize::deserialize(from)?;
    let raw = raw.unwrap_or_default();
    let written = raw.iter().filter(|volume| volume.is_written()).map(|volume| volume.name.clone());
    let written = written.collect();
    let mut needs = Vec::new();
    for volume in raw {
        let RawVolume { name, config_map, secret, persistent_volume_claim, ephemeral, projected, .. } =
            volume;
        let need = |kind, source: RawSource| VolumeNeed {
            volume: name.clone(),
            kind,
            is_ephemeral: false,
            keys: source.items.into_iter().flatten().map(|item| item.key).collect(),
            optional: source.optional == Some(true),
            name: if source.name.is_empty() { source.secret_name } else { source.name },
        };
        let projections = projected.and_then(|projected| projected.sources).into_iter().flatten();
        let is_api_access = name.starts_with(API_ACCESS);
        let projections = projections.enumerate().map(|(index, source)| {
            let config_map = source.config_map.filter(|map| !is_api_access || map.name != ROOT_CA);
            let position = |_| RawSource { name: index.to_string(), ..RawSource::default() };
            let certificate = source.pod_certificate.map(position);
            (config_map, source.secret, source.cluster_trust_bundle, certificate)
        });
        let own = [(config_map, secret, None, None)];
        for (config_map, secret, bundle, certificate) in own.into_iter().chain(projections) {
            needs.extend(config_map.map(|source| need(SourceKind::ConfigMap, source)));
            needs.extend(secret.map(|source| need(SourceKind::Secret, source)));
            // A bundle that is found by its signer has no name; the pod does not wait for it.
            needs.extend(bundle.map(|source| need(SourceKind::TrustBundle, source)));
            needs.extend(certificate.map(|source| need(SourceKind::PodCertificate, source)));
        }
        let claim =
            persistent_volume_claim.map(|claim| RawSource { name: claim.claim_name, ..RawSource::default() });
        needs.extend(claim.map(|source| need(SourceKind::Claim, source)));
        needs.extend(ephemeral.map(|_| VolumeNeed {
            volume: name.clone(),
            kind: SourceKind::Claim,
            name: name.clone(),
            is_ephemeral: true,
            keys: Vec::new(),
            optional: false,
        }));
    }
    // An empty name, which validation allows, refers to nothing.
    needs.retain(|need| !need.name.is_empty());
    needs.shrink_to_fit();
    Ok(PodVolumes { needs, written })
}

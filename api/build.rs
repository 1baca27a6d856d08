//! Collects the published descriptions of types and members from the Rust types of `k8s-openapi` into one file, which
//! `openapi` includes: the program has the texts, and neither the types nor `schemars`. `src/openapi/descriptions.rs`
//! has the notation. The field table becomes statics beside it.

#[path = "build_script/field_table.rs"]
mod field_table;
#[path = "build_script/packed.rs"]
mod packed;
#[allow(dead_code, unreachable_pub, reason = "the build script needs a part of the crate's module")]
#[path = "src/version.rs"]
mod version;

use k8s_openapi as k8s;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::WatchEvent;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build_script");
    println!("cargo:rerun-if-changed=schema");
    println!("cargo:rerun-if-changed=src/version.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    field_table::write(Path::new("schema"), &out.join("field_table.rs"))?;
    let mut generator = SchemaSettings::openapi3().into_generator();
    generator.subschema_for::<WatchEvent<RawExtension>>();
    ROOTS.iter().for_each(|add| add(&mut generator));
    fs::write(out.join("descriptions.txt"), lines(&generator.take_definitions(true)))?;
    Ok(())
}

/// The lines of these types, by package.
fn lines(types: &Map<String, Value>) -> String {
    let mut names: Vec<(&str, &str)> = types.keys().filter_map(|name| name.rsplit_once('.')).collect();
    names.sort_unstable();
    let (mut text, mut package) = (String::new(), "");
    for (prefix, name) in names {
        if package != prefix {
            package = prefix;
            let _ = writeln!(text, "@ {prefix}");
        }
        let ty = &types[&format!("{prefix}.{name}")];
        let _ = writeln!(text, "{name}{}", described(ty));
        let members = ty["properties"].as_object().into_iter().flatten();
        for (member, text_of) in members.map(|(member, schema)| (member, described(schema))) {
            if !text_of.is_empty() {
                let _ = writeln!(text, "  {member}{text_of}");
            }
        }
    }
    text
}

/// The description of a schema on one line, after a space; empty if it has none.
fn described(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let mut line = text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', "\\t");
    if let Some(rest) = line.strip_prefix(' ') {
        line = format!("\\s{rest}");
    }
    if let Some(rest) = line.strip_suffix(' ') {
        line = format!("{rest}\\s");
    }
    if line.is_empty() { line } else { format!(" {line}") }
}

macro_rules! roots {
    ($($path:path { $($kind:ident)* })*) => {
        /// Adds a type, and all that it refers to, to a generator.
        const ROOTS: &[fn(&mut SchemaGenerator)] = &[
            $($(|generator| {
                use $path as package;
                generator.subschema_for::<package::$kind>();
            },)*)*
        ];
    };
}

roots! {
    k8s::apimachinery::pkg::api::resource { Quantity }
    k8s::api::core::v1 {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    k8s::api::apps::v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    k8s::api::batch::v1 { CronJob Job }
    k8s::api::autoscaling::v1 { HorizontalPodAutoscaler Scale }
    k8s::api::autoscaling::v2 { HorizontalPodAutoscaler }
    k8s::api::networking::v1 {
        IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
    }
    k8s::api::policy::v1 { Eviction PodDisruptionBudget }
    k8s::api::rbac::v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
    k8s::api::storage::v1 {
        CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
    }
    k8s::api::storagemigration::v1beta1 { StorageVersionMigration }
    k8s::api::admissionregistration::v1 {
        MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
        ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
    }
    k8s::api::authentication::v1 { SelfSubjectReview TokenRequest TokenReview }
    k8s::api::authorization::v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    k8s::api::certificates::v1 { CertificateSigningRequest }
    k8s::api::certificates::v1beta1 { ClusterTrustBundle }
    k8s::api::coordination::v1 { Lease }
    k8s::api::discovery::v1 { EndpointSlice }
    k8s::api::events::v1 { Event }
    k8s::api::flowcontrol::v1 { FlowSchema PriorityLevelConfiguration }
    k8s::api::node::v1 { RuntimeClass }
    k8s::api::resource::v1 {
        DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
    }
    k8s::api::scheduling::v1 { PriorityClass }
    k8s::api::scheduling::v1alpha2 { PodGroup Workload }
    k8s::apiextensions_apiserver::pkg::apis::apiextensions::v1 { CustomResourceDefinition }
    k8s::kube_aggregator::pkg::apis::apiregistration::v1 {
        APIService
    }
    k8s::apimachinery::pkg::apis::meta::v1 {
        APIGroup APIGroupList APIResourceList APIVersions DeleteOptions ListMeta ObjectMeta Patch Status
    }
    k8s::apimachinery::pkg::version { Info }
}

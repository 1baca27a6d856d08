//! The field table against the published client types of each version, `k8s-openapi`: a kind or a member that is in no row fails, and so
//! does a version that [`Minor`] does not have. The sources of the crate are those that cargo has unpacked for this build.

use super::lookup_minor;
use crate::version::Minor;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages that kstore does not serve: alpha and beta versions, and types that the table has as elements.
const LEFT_OUT: &[&str] = &[
    "io.k8s.api.admissionregistration.v1alpha1",
    "io.k8s.api.admissionregistration.v1beta1",
    "io.k8s.api.apiserverinternal.v1alpha1",
    "io.k8s.api.certificates.v1alpha1",
    "io.k8s.api.coordination.v1alpha2",
    "io.k8s.api.coordination.v1beta1",
    "io.k8s.api.lifecycle.v1alpha1",
    "io.k8s.api.resource.v1alpha3",
    "io.k8s.api.resource.v1beta1",
    "io.k8s.api.resource.v1beta2",
    "io.k8s.api.scheduling.v1alpha1",
    "io.k8s.api.scheduling.v1alpha3",
    "io.k8s.api.storage.v1alpha1",
    "io.k8s.api.storage.v1beta1",
    "io.k8s.api.storagemigration.v1alpha1",
    "io.k8s.apimachinery.pkg.api.resource",
    "io.k8s.apimachinery.pkg.runtime",
    "io.k8s.apimachinery.pkg.util.intstr",
    "io.k8s.apimachinery.pkg.version",
];

/// Types of packages that the table has: those of kinds that are not served, of members that are off by default, and those that the table
/// has as elements.
const LEFT_OUT_TYPES: &[(&str, &[&str])] = &[
    ("io.k8s.api.batch.v1", &["JobSchedulingConfiguration"]),
    (
        "io.k8s.api.certificates.v1beta1",
        &["PodCertificateRequest", "PodCertificateRequestSpec", "PodCertificateRequestStatus"],
    ),
    (
        "io.k8s.api.networking.v1beta1",
        &[
            "IPAddress",
            "IPAddressSpec",
            "ParentReference",
            "ServiceCIDR",
            "ServiceCIDRSpec",
            "ServiceCIDRStatus",
        ],
    ),
    (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        &["JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"],
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1", &["FieldsV1", "MicroTime", "Patch", "Time", "WatchEvent"]),
];

/// Members that are off by default, and not served.
const LEFT_OUT_MEMBERS: &[&str] = &["io.k8s.api.batch.v1.JobSpec.scheduling"];

/// The members of each type, by its OpenAPI name.
type Published = BTreeMap<String, BTreeSet<String>>;

/// The folder of the crate's sources: where cargo unpacks crates, or where it says that the crate is.
fn sources() -> PathBuf {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap();
    let after = lock.split("name = \"k8s-openapi\"\nversion = \"").nth(1).expect("the crate is a dependency");
    let crate_name = format!("k8s-openapi-{}", after.split('"').next().unwrap());
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok()).into_iter().flatten();
    let mut unpacked = registries.flatten().map(|registry| registry.path().join(&crate_name).join("src"));
    unpacked.find(|path| path.is_dir()).unwrap_or_else(said_by_cargo)
}

/// The folder that cargo names, such as one of vendored crates.
fn said_by_cargo() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--offline", "--format-version", "1"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let metadata: Value = serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "k8s-openapi").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().join("src")
}

/// Adds the types of the files below a folder; `package` is the folder's name in OpenAPI.
fn collect(folder: &Path, package: &str, published: &mut Published) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() {
            collect(&path, &format!("{package}.{}", name.replace('_', "-")), published);
        } else if package != "io.k8s" && name != "mod" {
            let text = fs::read_to_string(&path).unwrap();
            if let Some((ty, members)) = type_of(&text) {
                published.insert(format!("{package}.{ty}"), members);
            }
        }
    }
}

/// The type that a file declares, with the members that its decoder knows.
fn type_of(text: &str) -> Option<(String, BTreeSet<String>)> {
    let declared = text
        .lines()
        .find_map(|line| line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum ")))?;
    let ty = declared.split(|c: char| !c.is_alphanumeric()).next()?.to_owned();
    let member = |line: &str| {
        let (name, rest) = line.trim_start().strip_prefix('"')?.split_once('"')?;
        rest.starts_with(" => Field::Key_").then(|| name.to_owned())
    };
    Some((ty, text.lines().filter_map(member).collect()))
}

/// The published types and members that a version of the table lacks.
fn missing(minor: Minor, published: &Published) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, members) in published {
        let (package, ty) = name.rsplit_once('.').unwrap();
        let is_left_out = |(of, types): &(&str, &[&str])| *of == package && types.contains(&ty);
        if LEFT_OUT.contains(&package) || LEFT_OUT_TYPES.iter().any(is_left_out) {
            continue;
        }
        match lookup_minor(minor, name) {
            None => missing.push(name.clone()),
            Some(row) => {
                let lacking = members.iter().filter(|member| row.field(member).is_none());
                let paths = lacking.map(|member| format!("{name}.{member}"));
                missing.extend(paths.filter(|path| !LEFT_OUT_MEMBERS.contains(&path.as_str())));
            }
        }
    }
    missing
}

#[test]
fn every_published_kind_and_member_of_every_version_is_in_a_row() {
    let mut versions = Vec::new();
    for entry in fs::read_dir(sources()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(version) = name.strip_prefix("v1_").filter(|_| path.is_dir()) else { continue };
        let minor = Minor::ALL.into_iter().find(|minor| minor.number().to_string() == version);
        let minor = minor.unwrap_or_else(|| {
            panic!("1.{version} is published: api/README.md says how the next version is added")
        });
        let mut published = Published::new();
        collect(&path, "io.k8s", &mut published);
        assert!(published.len() > 500, "{minor}: {} types were found", published.len());
        assert_eq!(missing(minor, &published), [""; 0], "Kubernetes {minor}");
        versions.push(minor);
    }
    assert!(versions.contains(&Minor::DEFAULT), "{versions:?}");
}

#[test]
fn an_unknown_kind_and_an_unknown_member_are_found() {
    let text = "pub struct PodSpec {\n\"containers\" => Field::Key_containers,\n    \"novelty\" => Field::Key_novelty,\n";
    let (ty, members) = type_of(text).unwrap();
    let package = "io.k8s.api.core.v1";
    let published = Published::from([
        (format!("{package}.{ty}"), members),
        (format!("{package}.Novelty"), BTreeSet::new()),
        ("io.k8s.api.storage.v1alpha1.Left".to_owned(), BTreeSet::new()),
    ]);
    let expected = [format!("{package}.Novelty"), format!("{package}.PodSpec.novelty")];
    assert_eq!(missing(Minor::DEFAULT, &published), expected);
    let gone = Published::from([(format!("{package}.PodSpec"), BTreeSet::from(["workloadRef".to_owned()]))]);
    assert_eq!(missing(Minor::V35, &gone), [""; 0]);
    assert_eq!(missing(Minor::V36, &gone).len(), 1, "each version has members of its own");
}

//! OpenAPI documents. Version 3 has one document per group and version, some small ones, and an index;
//! version 2 has one document for everything. kubectl reads them for `explain`, for the patch types of a
//! resource and the merge strategies of its lists, and for whether the server validates fields. Client
//! generators read all of it.
//!
//! Types, list and patch facts come from the field table, defaults and enumerations from `facts`, texts from
//! `descriptions`, and paths from the given resources. This module caches nothing: a document is
//! large and built on demand. [`DocumentScope::fingerprint`] is cheap and changes whenever the document changes.

mod aggregated;
mod custom;
pub mod definition;
mod descriptions;
mod facts;
mod form;
pub mod gnostic;
#[cfg(test)]
mod golden_tests;
mod groups;
mod model;
mod operation;
mod parameters;
mod paths;
mod piece;
mod registered;
mod schemas;
mod standalone;
mod swagger;
#[cfg(test)]
mod tests;

use crate::resource::Resource;
use crate::schema;
use crate::version::Minor;
pub use aggregated::GroupVersionExtract;
pub use custom::{custom_document, with_custom};
use form::{Form, V3};
use operation::upper;
pub use piece::{Piece, frame, models};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};
pub use standalone::StandaloneDocs;
pub(crate) use swagger::Parameters;

/// API group and version of a document; the group is empty for `v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupVersion {
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
}

impl GroupVersion {
    /// Path below the root, also the document's name: `api/v1` or `apis/apps/v1`.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { group, version } = self;
        if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
    }

    /// Tag of the operations, e.g. `apps_v1`.
    fn tag(&self) -> String {
        format!("{}_{}", group_tag(&self.group), self.version)
    }

    /// Group and version in operation names, e.g. `AppsV1`.
    fn camel(&self) -> String {
        format!("{}{}", upper(&group_tag(&self.group)), upper(&self.version))
    }
}

/// API group as part of an identifier: `core`, `apps`, `rbacAuthorization`.
fn group_tag(group: &str) -> String {
    let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    let mut words = group.split(|c: char| !c.is_ascii_alphanumeric());
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |tag, word| tag + &upper(word))
}

/// OpenAPI description of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceDoc {
    /// Plural, the URL segment.
    pub plural: String,
    /// Kind of the objects.
    pub kind: String,
    /// Schema name of the objects.
    pub schema_name: String,
    /// Schema name of their lists.
    pub list_schema_name: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs, in discovery's order.
    pub verbs: Vec<String>,
    /// Whether a DELETE is answered with the object.
    pub returns_deleted: bool,
    /// Subresources.
    pub subresources: Vec<SubresourceDoc>,
    /// Whether it is a custom resource; [`definition`] makes its models.
    pub is_custom: bool,
    /// The version of Kubernetes whose models it has.
    pub minor: Minor,
}

impl ResourceDoc {
    fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// OpenAPI description of one subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubresourceDoc {
    /// Name, the URL segment.
    pub name: String,
    /// Group, version and kind of the body.
    pub body: (String, String, String),
    /// Schema name of the body; `None` if the response is not an object (logs, exec).
    pub schema_name: Option<String>,
    /// Verbs, in discovery's order.
    pub verbs: Vec<String>,
}

impl SubresourceDoc {
    /// Whether the response is text or a stream.
    fn is_stream(&self) -> bool {
        self.schema_name.is_none()
    }
}

impl From<&Resource> for ResourceDoc {
    fn from(resource: &Resource) -> Self {
        let owned = |verbs: &[&str]| verbs.iter().map(|v| (*v).to_owned()).collect();
        let subresources = resource.subresources.iter().map(|sub| SubresourceDoc {
            name: sub.name.to_owned(),
            body: (sub.group.to_owned(), sub.version.to_owned(), sub.kind.to_owned()),
            schema_name: sub
                .object_type
                .filter(|_| !matches!(sub.name, "log" | "exec" | "attach" | "portforward" | "proxy"))
                .map(schema::Type::openapi_name),
            verbs: owned(sub.verbs),
        });
        Self {
            plural: resource.plural.to_owned(),
            kind: resource.kind.to_owned(),
            schema_name: resource.schema.to_owned(),
            list_schema_name: format!("{}List", resource.schema),
            namespaced: resource.namespaced,
            verbs: owned(resource.verbs),
            returns_deleted: resource.returns_deleted,
            subresources: subresources.collect(),
            is_custom: false,
            minor: resource.minor,
        }
    }
}

/// Scope of one OpenAPI v3 document.
#[derive(Clone, Debug, PartialEq)]
pub enum DocumentScope {
    /// `/api`, in a version of Kubernetes.
    Versions(Minor),
    /// `/apis`, in a version of Kubernetes.
    Groups(Minor),
    /// `/apis/<group>`, in a version of Kubernetes.
    Group(String, Minor),
    /// All resources of a group and version.
    Resources(GroupVersion, Vec<ResourceDoc>),
    /// `/version`, in a version of Kubernetes.
    Version(Minor),
    /// `/.well-known/openid-configuration`, in a version of Kubernetes: issuer of service account tokens.
    Issuer(Minor),
    /// `/openid/v1/jwks`, in a version of Kubernetes: public keys of that issuer.
    Keys(Minor),
}

impl DocumentScope {
    /// Name of the document, which is its path, such as `apis/apps/v1`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Versions(_) => "api".into(),
            Self::Groups(_) => "apis".into(),
            Self::Group(group, _) => format!("apis/{group}"),
            Self::Resources(gv, _) => gv.path(),
            Self::Version(_) => "version".into(),
            Self::Issuer(_) => ".well-known/openid-configuration".into(),
            Self::Keys(_) => "openid/v1/jwks".into(),
        }
    }

    /// The version of Kubernetes that the document states and whose models it has.
    fn minor(&self) -> Minor {
        match self {
            Self::Resources(_, resources) => {
                resources.first().map(|resource| resource.minor).unwrap_or_default()
            }
            Self::Versions(minor)
            | Self::Groups(minor)
            | Self::Group(_, minor)
            | Self::Version(minor)
            | Self::Issuer(minor)
            | Self::Keys(minor) => *minor,
        }
    }

    /// Builds the document.
    #[must_use]
    pub fn document(&self) -> Value {
        let minor = self.minor();
        let mut schemas = schemas::named(minor, self.roots());
        if let Self::Resources(gv, _) = self {
            registered::scope(minor, gv, &mut schemas);
        }
        schemas.extend(self.lists());
        envelope(minor, self.paths(&mut V3).into(), schemas)
    }

    fn paths(&self, form: &mut dyn Form) -> Map<String, Value> {
        match (self, self.page()) {
            (_, Some(page)) => page.paths(form),
            (Self::Resources(gv, resources), None) => paths::paths(gv, resources, form),
            (_, None) => Map::new(),
        }
    }

    /// Names of the schemas that the paths refer to, except those of lists. Names may repeat.
    fn roots(&self) -> Vec<&str> {
        match self {
            Self::Resources(_, resources) => schemas::roots(resources),
            _ => self.page().and_then(|page| page.root()).into_iter().collect(),
        }
    }

    /// Schemas of the resources' lists.
    fn lists(&self) -> Map<String, Value> {
        match self {
            Self::Resources(gv, resources) => schemas::lists(gv, resources),
            _ => Map::new(),
        }
    }

    /// The page of this scope; `None` for resources.
    fn page(&self) -> Option<groups::Page> {
        Some(match self {
            Self::Versions(_) => groups::versions(),
            Self::Groups(_) => groups::groups(),
            Self::Group(group, _) => groups::group(group),
            Self::Resources(..) => return None,
            Self::Version(_) => groups::version(),
            Self::Issuer(_) => groups::issuer(),
            Self::Keys(_) => groups::keys(),
        })
    }

    /// Fingerprint of the document for the `hash` parameter. Computing it does not build the document.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let own = format!("v3/{} ", self.name());
        let line = GOLDEN.lines().find(|line| line.starts_with(&own));
        hash_of([line.unwrap_or(GOLDEN), &format!("{self:?}")])
    }
}

/// Fingerprint of a document with custom kinds that is built from `facts`; it changes whenever the document changes.
#[must_use]
pub fn fingerprint(facts: &str) -> String {
    hash_of(SOURCES.iter().copied().chain([facts]))
}

fn hash_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha512::new();
    texts.into_iter().for_each(|text| hash.update(text));
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Length and hash of every document with all built-in kinds. `golden_tests` holds it, so that a fingerprint is
/// computed without the document and without its sources.
static GOLDEN: &str = include_str!("golden.txt");

/// What documents with custom kinds change with, besides the definitions.
static SOURCES: [&str; 5] = [
    GOLDEN,
    include_str!("definition/mod.rs"),
    include_str!("definition/model.rs"),
    include_str!("definition/v2.rs"),
    include_str!("custom.rs"),
];

/// The index at `/openapi/v3`: the path of each document, with its fingerprint.
#[must_use]
pub fn index<'a>(parts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Value {
    let paths = parts.into_iter().map(|(name, fingerprint)| {
        (name.to_owned(), json!({"serverRelativeURL": format!("/openapi/v3/{name}?hash={fingerprint}")}))
    });
    json!({"paths": Value::Object(paths.collect())})
}

/// OpenAPI v3 paths of resources, without models, for documents that other modules assemble.
pub(crate) fn paths_of(gv: &GroupVersion, resources: &[ResourceDoc]) -> Map<String, Value> {
    paths::paths(gv, resources, &mut V3)
}

/// A v3 document. As in Kubernetes, one without schemas does not have the member.
fn envelope(minor: Minor, paths: Value, schemas: Map<String, Value>) -> Value {
    let mut document = json!({
        "openapi": "3.0.0",
        "info": info(minor),
        "paths": paths,
        "components": {"securitySchemes": common::security_schemes()},
    });
    if !schemas.is_empty() {
        document["components"]["schemas"] = schemas.into();
    }
    document
}

/// Title and version of the documents of a version of Kubernetes: its minor version, without a patch release.
fn info(minor: Minor) -> Value {
    json!({"title": "Kubernetes", "version": minor.to_string()})
}

/// Reference to a schema of the same document.
fn reference(schema_name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema_name}")})
}

/// Schema names and security schemes that all documents use.
mod common {
    use crate::openapi::ResourceDoc;
    use serde_json::{Value, json};

    /// Schema of one API group.
    pub(super) const API_GROUP: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroup";
    /// Schema of the list of API groups.
    pub(super) const API_GROUP_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIGroupList";
    /// Schema of the list of resources in a group and version.
    pub(super) const API_RESOURCE_LIST: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList";
    /// Schema of the versions of the core group.
    pub(super) const API_VERSIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.APIVersions";
    /// Schema of delete options.
    pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
    /// Schema of list metadata.
    pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
    /// Schema of object metadata.
    pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    /// Schema of any patch.
    pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
    /// Schema of a Status.
    pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
    /// Schema of the `/version` response.
    pub(super) const VERSION: &str = "io.k8s.apimachinery.pkg.version.Info";
    /// Schema of a watch event.
    pub(super) const WATCH_EVENT: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent";

    /// Schemas that operations on these resources use besides the resources' own.
    pub(super) fn of(resources: &[ResourceDoc]) -> impl Iterator<Item = &'static str> + use<> {
        let any = |verb: &str| resources.iter().any(|r| r.can(verb));
        [
            (true, API_RESOURCE_LIST),
            (true, OBJECT_META),
            (any("list"), LIST_META),
            (any("delete"), DELETE_OPTIONS),
            (any("delete"), STATUS),
            (any("patch"), PATCH),
            (any("watch"), WATCH_EVENT),
        ]
        .into_iter()
        .filter_map(|(used, name)| used.then_some(name))
    }

    /// Authentication schemes: bearer tokens.
    pub(super) fn security_schemes() -> Value {
        json!({"BearerToken": {
            "description": "Bearer Token authentication",
            "in": "header",
            "name": "authorization",
            "type": "apiKey",
        }})
    }
}

//! The field table: the fields of every built-in Kubernetes type, as data.
//!
//! One table drives everything that is generic over kinds: JSON decoding ([`decode`]), the protobuf wire
//! format ([`crate::wire`]), strategic merge and server-side apply ([`crate::patch`]) and OpenAPI
//! ([`crate::openapi`]). It describes types only. Defaults and validation are code in other modules; plural
//! names, verbs and scope are in [`crate::kind`].
//!
//! # Notation of `schema/*.tbl`
//!
//! One file per API group and version, one line per fact, `#` starts a comment line.
//!
//! ```text
//! @ apps/v1 io.k8s.api.apps.v1 apps v1 17800 15
//!                                           short name, OpenAPI prefix, group (`-` is the core group), version,
//!                                           priorities of group and version in its APIService, if it has one
//! DeploymentSpec                            a type (no indentation); flags: `kind` it carries apiVersion and kind,
//!                                           `atomic` server-side apply owns it as one value
//!   replicas 1 *i32 ?                       a field (two spaces): JSON name, protobuf number, type, flags
//!   template 3 core/v1.PodTemplateSpec !    a type of another file is written with its short name
//!   ^ 2 VolumeSource                        inline: nested in protobuf under this number, members inline in JSON
//! ```
//!
//! Types: `[]` list, `{}` map from string, `*` pointer (an explicit zero differs from absence). Scalars: `str
//! bool i32 i64 f64 bytes time microtime quantity intstr raw fields json items` (`items`: a list of strings
//! that protobuf wraps in a message) and `schemaorlist schemaorbool schemaorstrings` of JSON schema. Any
//! other word names a type.
//!
//! Flags: `?` left out when empty, `z` left out when zero also where it is a struct, `!` required in OpenAPI,
//! `patch=` strategic-merge strategies with `key=` its merge key, `list=map|set|atomic` with `by=` the map
//! keys and `atomic` for a map or struct that server-side apply owns as a whole.
//!
//! Marks of types and fields: `since=` and `until=`, the first and the last version of Kubernetes that has the line (without them: all
//! that [`Minor::ALL`] has), and `gate=` with the feature gates of a field, joined by `+`. Two lines of one field that differ in their
//! flags have versions without an overlap. A field whose protobuf number is not established has 0 and is in JSON only.
//!
//! # Versions
//!
//! A type belongs to one version of Kubernetes, and its fields refer to types of the same version. So code that has the type of an
//! object (from [`of`], or [`of_minor`] for a version that is not the default) asks for no version again: a member that a version does
//! not have is an unknown field.

pub mod decode;
pub mod fill;
pub(crate) mod limits;
pub(crate) mod marked;
pub(crate) mod path;
pub(crate) mod scalar;
pub mod strict;
mod table;
mod version_types;

#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod published_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod version_tests;

use crate::version::Minor;
use std::fmt;
use table::{PACKAGES, TYPES, find};

/// Group and version of a set of types, with the names by which messages and OpenAPI refer to it.
#[derive(Debug)]
pub struct Package {
    /// Name inside the table, e.g. `apps/v1`.
    pub short: &'static str,
    /// Prefix of OpenAPI names, e.g. `io.k8s.api.apps.v1`.
    pub openapi: &'static str,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Priority of its APIService; `None` for versions that are served without one, or not served.
    pub priority: Option<Priority>,
}

/// Place of an API among the others in discovery.
#[derive(Clone, Copy, Debug)]
pub struct Priority {
    /// `groupPriorityMinimum`: the priority of the group.
    pub of_group: i64,
    /// `versionPriority`: the priority of the version inside the group.
    pub of_version: i64,
}

impl Package {
    /// `v1` or `apps/v1`, as written in `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether an `apiVersion` names this group and version.
    #[must_use]
    pub fn is_version(&self, api_version: &str) -> bool {
        crate::group_version::split_api_version(api_version) == (self.group, self.version)
    }
}

/// Index of a [`Type`] in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(u16);

impl TypeId {
    /// The type with this index.
    #[must_use]
    pub fn get(self) -> &'static Type {
        match self.0 < version_types::FIRST_OTHER {
            true => &TYPES[usize::from(self.0)],
            false => version_types::get(self),
        }
    }
}

/// Type of one value: of a field, or of the elements of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// JSON string.
    String,
    /// JSON boolean.
    Bool,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// Double.
    Float64,
    /// Base64 in JSON.
    Bytes,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// Resource quantity.
    Quantity,
    /// JSON number or string.
    IntOrString,
    /// An embedded object of any kind.
    Raw,
    /// The field set of an entry in managedFields.
    FieldsV1,
    /// Any JSON value.
    Json,
    /// A list of strings that is a message of its own in protobuf.
    Items,
    /// A JSON schema or a list of them.
    SchemaOrList,
    /// A JSON schema or a boolean.
    SchemaOrBool,
    /// A JSON schema or a list of property names.
    SchemaOrStrings,
    /// A struct of the table.
    Struct(TypeId),
}

/// Whether a field holds one value, a list or a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exactly one value.
    One,
    /// A list of values.
    List,
    /// A map from string to value.
    Map,
}

/// List type for server-side apply. Lists without one are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Explicitly declared as replaced as a whole.
    Atomic,
    /// Unique scalars.
    Set,
    /// Elements identified by key fields.
    Map,
}

/// Strategies of strategic merge patch that the API declares for a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merge list elements (by key, or as a set of scalars).
    pub merge: bool,
    /// Replace the value although it is a map.
    pub replace: bool,
    /// The patch may list the sibling keys to keep.
    pub retain_keys: bool,
}

/// Field of a struct: one member of the JSON object.
#[derive(Clone, Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// Protobuf field number; 0 for members that protobuf does not carry (apiVersion and kind).
    pub number: u32,
    /// Whether the field is one value, a list or a map.
    pub shape: Shape,
    /// Type of the value or of its elements.
    pub elem: Elem,
    /// Whether an explicit zero value differs from absence.
    pub pointer: bool,
    /// Whether Go leaves an empty value out of JSON.
    pub omit_empty: bool,
    /// Whether Go leaves a zero value out of JSON, also for structs.
    pub omit_zero: bool,
    /// Whether OpenAPI lists the member as required.
    pub required: bool,
    /// Strategic-merge strategies.
    pub patch: PatchStrategy,
    /// Strategic-merge key of list elements.
    pub merge_key: Option<&'static str>,
    /// Server-side apply list type.
    pub list_type: Option<ListType>,
    /// Keys that identify the elements of a [`ListType::Map`] list.
    pub list_keys: &'static [&'static str],
    /// Whether server-side apply owns the map or struct as a whole.
    pub atomic: bool,
    /// Index of its feature gates.
    gate: u16,
}

impl Field {
    /// The feature gates that must be on for the field to be kept; empty if it has none.
    #[must_use]
    pub fn gates(&self) -> &'static [&'static str] {
        table::gates(self.gate)
    }

    /// The struct type of the field's value or elements, if it is a struct.
    #[must_use]
    pub fn struct_type(&self) -> Option<&'static Type> {
        match self.elem {
            Elem::Struct(id) => Some(id.get()),
            _ => None,
        }
    }
}

/// Meaning of a protobuf field number in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A member of the JSON object, as index into [`Type::fields`].
    Field(u16),
    /// A nested message whose members are inline in JSON.
    Inline(TypeId),
}

/// Struct of the Kubernetes API, with its fields. Debug output is its OpenAPI name.
pub struct Type {
    /// Group and version that define the type.
    pub package: &'static Package,
    /// Name without package, e.g. `DeploymentSpec`.
    pub name: &'static str,
    /// Whether the type has `apiVersion` and `kind`.
    pub has_kind: bool,
    /// Whether server-side apply owns the struct as one value.
    pub atomic: bool,
    /// Members of the JSON object, sorted by name; inlined ones are included.
    pub fields: &'static [Field],
    /// Members by protobuf number, sorted; an inlined message is one entry.
    pub members: &'static [(u32, Member)],
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.openapi_name())
    }
}

impl Type {
    /// The field with this JSON name.
    #[must_use]
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        let at = self.fields.binary_search_by(|f| f.name.cmp(name)).ok()?;
        Some(&self.fields[at])
    }

    /// The member with this protobuf number.
    #[must_use]
    pub fn member(&self, number: u32) -> Option<Member> {
        let at = self.members.binary_search_by(|m| m.0.cmp(&number)).ok()?;
        Some(self.members[at].1)
    }

    /// The name used in OpenAPI, e.g. `io.k8s.api.apps.v1.DeploymentSpec`.
    #[must_use]
    pub fn openapi_name(&self) -> String {
        format!("{}.{}", self.package.openapi, self.name)
    }

    /// The name Go prints in type errors, e.g. `v1.DeploymentSpec`.
    #[must_use]
    pub fn go_name(&self) -> String {
        format!("{}.{}", self.package.version, self.name)
    }
}

/// Finds a type by its OpenAPI name, e.g. `io.k8s.api.apps.v1.Deployment`.
#[must_use]
pub fn lookup(openapi_name: &str) -> Option<&'static Type> {
    lookup_minor(Minor::DEFAULT, openapi_name)
}

/// Finds a type of a version of Kubernetes by its OpenAPI name.
#[must_use]
pub fn lookup_minor(minor: Minor, openapi_name: &str) -> Option<&'static Type> {
    let (prefix, name) = openapi_name.rsplit_once('.')?;
    let package = PACKAGES.iter().position(|p| p.openapi == prefix)?;
    find_minor(minor, package, name)
}

/// Finds the type of a kind in the default version. Kinds that every group serves (`DeleteOptions`, `Status`, …) are found under any
/// group.
#[must_use]
pub fn of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    of_minor(Minor::DEFAULT, group, version, kind)
}

/// The type of a kind in the default version, for the statics of rows: a constant, so that requests look up no type. As [`of`], but kinds
/// that every group serves are found under their own group alone.
pub(crate) const fn constant(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    table::constant(group, version, kind)
}

/// Finds the type of a kind in a version of Kubernetes; `version` is that of the group. A row of the table of kinds has its type, see
/// `Resource::object_type`: requests look up none.
#[must_use]
pub fn of_minor(minor: Minor, group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let found = PACKAGES.iter().enumerate().find_map(|(at, p)| {
        (p.group == group && p.version == version)
            .then(|| find_minor(minor, at, kind).filter(|t| t.has_kind))
            .flatten()
    });
    found.or_else(|| meta_kind(minor, kind))
}

/// Type of a kind of `meta/v1` that clients may send under any group and version.
fn meta_kind(minor: Minor, kind: &str) -> Option<&'static Type> {
    let package = PACKAGES.iter().position(|p| p.short == "meta/v1")?;
    find_minor(minor, package, kind).filter(|t| t.has_kind)
}

fn find_minor(minor: Minor, package: usize, name: &str) -> Option<&'static Type> {
    match minor == Minor::DEFAULT {
        true => find(package, name),
        false => version_types::of(minor).find(package, name),
    }
}

/// Type `meta/v1.ObjectMeta`: the metadata of every object, also of custom resources.
#[must_use]
pub fn object_meta() -> &'static Type {
    lookup("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the table has ObjectMeta")
}

/// Type `apiextensions/v1.JSONSchemaProps`, to which the `schemaor…` elements refer.
#[must_use]
pub fn json_schema_props() -> &'static Type {
    static FOUND: std::sync::OnceLock<&'static Type> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| {
        lookup("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
            .expect("the table has JSONSchemaProps")
    })
}

/// All groups and versions, in table order.
pub fn packages() -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter()
}

/// All types of the default version, in table order.
pub fn all() -> impl Iterator<Item = &'static Type> {
    TYPES.iter()
}

/// All types of a version, in table order.
pub fn all_minor(minor: Minor) -> impl Iterator<Item = &'static Type> {
    match minor == Minor::DEFAULT {
        true => TYPES.iter(),
        false => version_types::of(minor).all().iter(),
    }
}

//! The field table: what every built-in Kubernetes type looks like, as data.
//!
//! One table drives everything that is generic over kinds: JSON checking ([`decode`]), the protobuf wire format
//! ([`crate::wire`]), strategic merge and server-side apply ([`crate::patch`]) and OpenAPI ([`crate::openapi`]).
//! It knows shapes only. Defaults and validation are code elsewhere; the resources served (plural names, verbs,
//! scope) are another table.
//!
//! # Notation of `schema/*.tbl`
//!
//! One file per API group and version, one line per fact, `#` starts a comment line.
//!
//! ```text
//! @ apps/v1 io.k8s.api.apps.v1 apps v1      short name, OpenAPI prefix, group (`-` is the core group), version
//! DeploymentSpec                            a type (no indentation); flags: `kind` it carries apiVersion and kind,
//!                                           `atomic` server-side apply owns it as one value
//!   replicas 1 *i32 ?                       a field (two spaces): JSON name, protobuf number, type, flags
//!   template 3 core/v1.PodTemplateSpec !    a type of another file is written with its short name
//!   ^ 2 VolumeSource                        inline: nested in protobuf under this number, members inline in JSON
//! ```
//!
//! Types: `[]` list, `{}` map from string, `*` pointer (an explicit zero differs from absence). Scalars: `str bool i32
//! i64 f64 bytes time microtime quantity intstr raw fields json items` (`items`: a list of strings which protobuf wraps
//! in a message) and `schemaorlist schemaorbool schemaorstrings` of JSON schema. Any other word names a type.
//!
//! Flags: `?` left out when empty, `z` left out when zero also where it is a struct, `!` required in OpenAPI,
//! `patch=` strategic-merge strategies with `key=` its merge key, `list=map|set|atomic` with `by=` the map keys and
//! `atomic` for a map or struct which server-side apply owns as a whole.

pub mod decode;
pub mod fill;
pub(crate) mod limits;
pub(crate) mod path;
pub(crate) mod scalar;
pub mod strict;
mod table;

#[cfg(test)]
mod decode_tests;
#[cfg(test)]
mod published_tests;
#[cfg(test)]
mod tests;

pub(crate) use table::FILES;
use table::table;

/// A group and version with the place its type names live in.
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
        crate::kind::split_api_version(api_version) == (self.group, self.version)
    }
}

/// Index of a [`Type`] in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeId(u16);

impl TypeId {
    /// The type itself.
    #[must_use]
    pub fn get(self) -> &'static Type {
        &table().types[usize::from(self.0)]
    }
}

/// What one value (an element of a list or map, or the field itself) is.
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
    /// The field set of a managedFields entry.
    FieldsV1,
    /// Any JSON value.
    Json,
    /// A list of strings; a message of its own in protobuf.
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

/// How often the element occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exactly one value.
    One,
    /// A list of values.
    List,
    /// A map from string to value.
    Map,
}

/// List type for server-side apply; a list without one is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole, said so in the API.
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
    /// Replace the value even though it is a map.
    pub replace: bool,
    /// The patch may say which sibling keys to keep.
    pub retain_keys: bool,
}

/// One member of a JSON object.
#[derive(Clone, Debug)]
pub struct Field {
    /// JSON name.
    pub name: &'static str,
    /// Protobuf field number; 0 when protobuf does not carry it (apiVersion and kind).
    pub number: u32,
    /// One, list or map.
    pub shape: Shape,
    /// The element type.
    pub elem: Elem,
    /// An explicit zero value differs from absence.
    pub pointer: bool,
    /// Left out of JSON when empty.
    pub omit_empty: bool,
    /// Left out of JSON when zero, also where it is a struct.
    pub omit_zero: bool,
    /// Listed as required in OpenAPI.
    pub required: bool,
    /// Strategic-merge strategies.
    pub patch: PatchStrategy,
    /// Strategic-merge key of list elements.
    pub merge_key: Option<&'static str>,
    /// Server-side apply list type.
    pub list_type: Option<ListType>,
    /// Keys of a [`ListType::Map`] list.
    pub list_keys: Box<[&'static str]>,
    /// Server-side apply owns the map or struct as a whole.
    pub atomic: bool,
}

impl Field {
    /// The struct behind this field, whatever its shape.
    #[must_use]
    pub fn struct_type(&self) -> Option<&'static Type> {
        match self.elem {
            Elem::Struct(id) => Some(id.get()),
            _ => None,
        }
    }
}

/// What a protobuf field number of a message stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// Index into [`Type::fields`].
    Field(u16),
    /// A nested message whose members are inline in JSON.
    Inline(TypeId),
}

/// A struct of the Kubernetes API.
#[derive(Debug)]
pub struct Type {
    /// Where it lives.
    pub package: &'static Package,
    /// Name without package, e.g. `DeploymentSpec`.
    pub name: &'static str,
    /// It carries `apiVersion` and `kind`.
    pub has_kind: bool,
    /// Server-side apply owns it as one value.
    pub atomic: bool,
    /// Members as JSON shows them (inlined ones included), sorted by name.
    pub fields: Box<[Field]>,
    /// Members by protobuf number, sorted by number; inlined messages are one entry.
    pub members: Box<[(u32, Member)]>,
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
    let (prefix, name) = openapi_name.rsplit_once('.')?;
    let package = table().packages.iter().position(|p| p.openapi == prefix)?;
    table().find(package, name)
}

/// Finds the type of a kind. Kinds that every group serves (`DeleteOptions`, `Status`, …) are found under any group.
#[must_use]
pub fn of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let found = table().packages.iter().enumerate().find_map(|(at, p)| {
        (p.group == group && p.version == version)
            .then(|| table().find(at, kind).filter(|t| t.has_kind))
            .flatten()
    });
    found.or_else(|| meta_kind(kind))
}

/// A kind of `meta/v1` that may be sent under any group and version.
fn meta_kind(kind: &str) -> Option<&'static Type> {
    let package = table().packages.iter().position(|p| p.short == "meta/v1")?;
    table().find(package, kind).filter(|t| t.has_kind)
}

/// `meta/v1.ObjectMeta`: the metadata of every object, also of custom resources.
#[must_use]
pub fn object_meta() -> &'static Type {
    lookup("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the table has ObjectMeta")
}

/// `apiextensions/v1.JSONSchemaProps`, which the `schemaor…` elements refer to.
#[must_use]
pub fn json_schema_props() -> &'static Type {
    static FOUND: std::sync::OnceLock<&'static Type> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| {
        lookup("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
            .expect("the table has JSONSchemaProps")
    })
}

/// All types, in table order.
pub fn all() -> impl Iterator<Item = &'static Type> {
    table().types.iter()
}

//! The kinds that this server serves at one revision: the built-in kinds, and the custom kinds with their
//! compiled definitions. An immutable snapshot. The watch cache replaces it in the step that shows a changed
//! definition, so a request that keeps one snapshot sees routing, discovery, schemas and objects of the same
//! revision. The rules of definitions are in `kstore_api::crd`.

mod conversions;
mod view;

use crate::entry::Entry;
pub use conversions::Conversions;
pub(crate) use conversions::Missing;
use kstore_api::crd::{Conversion, Definition};
use kstore_api::kind::{self, CustomRow, OptIn, TooManyKinds};
use kstore_api::resource::Resource;
use kstore_api::stored::{self, StoredError};
use kstore_api::version::Minor;
use kstore_api::{crd, initializers, object};
use kstore_storage::storage::Raw;
use kstore_storage::storage_key::{self, DEFINITIONS_ROOT, is_definition};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub use view::{conversion_needed, is_conversion_needed};

/// The kinds served at one revision, with the definitions of the custom ones.
#[derive(Debug, Default)]
pub struct Kinds {
    rows: kind::Kinds,
    /// The rows that discovery and OpenAPI documents list, if these are not all: a kind whose definition has accepted names and is not
    /// established is served already, and listed later.
    listed: Option<kind::Kinds>,
    /// Custom kinds by the storage key of their definition.
    definitions: BTreeMap<String, Arc<CustomKind>>,
    /// The kind of an enabled alpha feature, declared without a stored definition. A stored definition of the
    /// same name takes its place.
    declared: Option<Arc<CustomKind>>,
}

/// A custom kind: one definition with a row for each of its versions.
#[derive(Debug)]
pub struct CustomKind {
    /// The compiled definition.
    pub definition: Arc<Definition>,
    /// The storage key of the definition.
    pub key: String,
    /// The revision of the definition. A write that the definition judged expects it to be current.
    pub revision: i64,
    /// The revision at which the definition was created.
    pub created: i64,
    /// The revision since which objects are stored in the form that today's schemas, storage version and
    /// conversion give them. Older objects may need to be normalized when they are read.
    pub normal_since: i64,
    /// Conversions by the definition's webhook.
    pub(crate) conversions: Conversions,
    /// The rows of the versions, in the order of `definition.versions`.
    rows: Vec<&'static Resource>,
    /// The definition as an entry, if it is not stored.
    pub unstored: Option<Arc<Entry>>,
}

/// One version of a custom kind, by whose schema and rules a request is judged.
#[derive(Clone, Debug)]
pub struct CustomVersion {
    /// The kind.
    pub kind: Arc<CustomKind>,
    /// The index in `kind.definition.versions`.
    pub index: usize,
}

/// A served resource: its row and, for custom kinds, its definition.
#[derive(Clone, Debug)]
pub struct Served {
    /// The table row of the resource.
    pub resource: &'static Resource,
    /// The version of the custom kind; `None` for built-in kinds.
    pub custom: Option<CustomVersion>,
}

/// Why a stored definition is not served.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// The stored value is not an object.
    #[error("the stored value cannot be read: {0}")]
    Stored(#[from] StoredError),
    /// The stored value is not a valid definition.
    #[error(transparent)]
    Definition(#[from] kstore_api::crd::CompileError),
    /// The process has too many rows of custom kinds.
    #[error(transparent)]
    TooMany(#[from] TooManyKinds),
}

impl CustomKind {
    /// Compiles a stored definition for a server of a version. `previous` is its state before, whose unchanged parts are shared.
    ///
    /// # Errors
    /// The reason why the definition cannot be served.
    pub fn of(raw: &Raw, previous: Option<&Self>, minor: Minor) -> Result<Self, KindError> {
        let row = kind::lookup(crd::GROUP, "v1", "customresourcedefinitions")
            .expect("definitions are a built-in kind");
        let stored = stored::read(row, &raw.value)?;
        let value =
            serde_json::from_slice(stored.as_deref().unwrap_or(&raw.value)).map_err(StoredError::from)?;
        let definition = Definition::compile_after(&value, previous.map(|kind| &*kind.definition))?;
        let rows = CustomRow::rows(&rows_of(&definition, minor), definition.storage)?;
        let same = previous.filter(|kind| {
            kind.definition.spec_hash == definition.spec_hash && kind.definition.uid == definition.uid
        });
        Ok(Self {
            normal_since: same.map_or(raw.revision, |kind| kind.normal_since),
            definition: Arc::new(definition),
            key: String::from_utf8_lossy(&raw.key).into_owned(),
            revision: raw.revision,
            created: raw.created,
            conversions: Conversions::default(),
            rows,
            unstored: None,
        })
    }

    /// The kind InitializerConfiguration. Its definition is not stored: its revision is that of an absent key.
    fn initializer_configurations(minor: Minor) -> Self {
        let stored = object::encode_stored(&initializers::definition());
        let key = definition_key(initializers::GROUP, initializers::PLURAL);
        let raw = Raw { key: key.into(), value: stored.into(), undecrypted: None, revision: 0, created: 0 };
        let kind =
            Self::of(&raw, None, minor).expect("the definition is valid, and has one of the first rows");
        let row = kind::lookup(crd::GROUP, "v1", "customresourcedefinitions");
        let entry = row.and_then(|row| Entry::from_raw(row, &raw).ok());
        Self { unstored: entry.map(Arc::new), ..kind }
    }

    /// The rows of the served versions.
    fn served_rows(&self) -> impl Iterator<Item = &'static Resource> {
        let versions = self.definition.versions.iter().zip(&self.rows);
        versions.filter(|(version, _)| version.served).map(|(_, row)| *row)
    }

    /// The row of the version in which objects are stored.
    pub fn storage_row(&self) -> &'static Resource {
        self.rows[self.definition.storage]
    }
}

fn rows_of(definition: &Definition, minor: Minor) -> Vec<CustomRow> {
    let accepted = &definition.accepted;
    let texts = |names: &[Arc<str>]| names.iter().map(|name| name.to_string()).collect();
    let fields: BTreeSet<Vec<String>> = definition
        .versions
        .iter()
        .flat_map(|version| version.selectable.iter().map(|field| field.path.clone()))
        .collect();
    let row = |version: &kstore_api::crd::Version| {
        let mut selectable: Vec<String> =
            version.selectable.iter().map(|field| field.label.clone()).collect();
        selectable.sort_unstable();
        CustomRow {
            group: definition.group.to_string(),
            version: version.name.to_string(),
            plural: definition.names.plural.to_string(),
            singular: accepted.singular.to_string(),
            kind: definition.names.kind.to_string(),
            list_kind: definition.names.list_kind.to_string(),
            short_names: texts(&accepted.short_names),
            categories: texts(&accepted.categories),
            namespaced: definition.namespaced,
            has_status: version.has_status,
            has_scale: version.scale.is_some(),
            fields: fields.iter().cloned().collect(),
            selectable,
            minor,
        }
    };
    definition.versions.iter().map(row).collect()
}

impl CustomVersion {
    /// The compiled definition.
    pub fn definition(&self) -> &Definition {
        &self.kind.definition
    }

    /// The version of the definition.
    pub fn version(&self) -> &kstore_api::crd::Version {
        &self.kind.definition.versions[self.index]
    }

    /// The row of this version.
    pub fn row(&self) -> &'static Resource {
        self.kind.rows[self.index]
    }

    /// Whether objects are stored in this version.
    pub fn is_stored(&self) -> bool {
        self.index == self.kind.definition.storage
    }
}

impl Kinds {
    /// The built-in kinds that each server serves.
    pub fn built_in() -> Self {
        Self::default()
    }

    /// The built-in kinds that each server serves, and the optional ones in `opt_in`.
    pub fn with_optional(opt_in: OptIn) -> Self {
        Self::of(opt_in, BTreeMap::new(), None)
    }

    /// These kinds and InitializerConfiguration.
    #[must_use]
    pub fn with_initializers(self) -> Self {
        let declared = Arc::new(CustomKind::initializer_configurations(self.rows.opt_in().minor()));
        Self::of(self.rows.opt_in().clone(), self.definitions, Some(declared))
    }

    /// The same kinds without those of stored definitions.
    #[must_use]
    pub(crate) fn without_custom(&self) -> Self {
        Self::of(self.rows.opt_in().clone(), BTreeMap::new(), self.declared.clone())
    }

    /// The kinds after changes of definitions. `changes` are storage keys with their current values; keys of
    /// other kinds are ignored. A definition that cannot be served is left out and logged.
    #[must_use]
    pub fn with<'r>(&self, changes: impl Iterator<Item = (&'r str, Option<&'r Raw>)>) -> Self {
        let mut definitions = self.definitions.clone();
        for (key, raw) in changes.filter(|(key, _)| is_definition(key)) {
            let previous = definitions.remove(key);
            let Some(raw) = raw else { continue };
            match CustomKind::of(raw, previous.as_deref(), self.rows.opt_in().minor()) {
                Ok(kind) => drop(definitions.insert(key.to_owned(), Arc::new(kind))),
                Err(error) => tracing::error!(key, %error, "a CustomResourceDefinition is not served"),
            }
        }
        definitions.retain(|_, kind| kind.unstored.is_none());
        Self::of(self.rows.opt_in().clone(), definitions, self.declared.clone())
    }

    fn of(
        opt_in: OptIn,
        mut definitions: BTreeMap<String, Arc<CustomKind>>,
        declared: Option<Arc<CustomKind>>,
    ) -> Self {
        if let Some(kind) = &declared {
            definitions.entry(kind.key.clone()).or_insert_with(|| kind.clone());
        }
        let rows_where = |takes: fn(&Definition) -> bool| -> Vec<_> {
            let kinds = definitions.values().filter(|kind| takes(&kind.definition));
            kinds.flat_map(|kind| kind.served_rows()).collect()
        };
        let (rows, listed) =
            (rows_where(Definition::is_served), rows_where(|definition| definition.established));
        let stored: Vec<_> = definitions.values().map(|kind| kind.storage_row()).collect();
        let listed = (listed.len() < rows.len()).then(|| kind::Kinds::new(opt_in.clone(), &listed, &stored));
        Self { rows: kind::Kinds::new(opt_in, &rows, &stored), listed, definitions, declared }
    }

    /// The kinds for another server. Converted objects are not shared, since the other server may have other
    /// objects.
    pub(crate) fn forked(kinds: &Arc<Self>) -> Arc<Self> {
        let converts = |kind: &CustomKind| matches!(kind.definition.conversion, Conversion::Webhook { .. });
        if !kinds.definitions.values().any(|kind| converts(kind)) {
            return kinds.clone();
        }
        let definitions = kinds.definitions.iter().map(|(key, kind)| {
            let kind = CustomKind {
                definition: kind.definition.clone(),
                key: kind.key.clone(),
                rows: kind.rows.clone(),
                conversions: Conversions::default(),
                unstored: kind.unstored.clone(),
                ..**kind
            };
            (key.clone(), Arc::new(kind))
        });
        Arc::new(Self::of(kinds.rows.opt_in().clone(), definitions.collect(), kinds.declared.clone()))
    }

    /// The rows of the served kinds, for callers that need no definition: discovery, storage keys.
    pub fn rows(&self) -> &kind::Kinds {
        &self.rows
    }

    /// The rows that discovery and OpenAPI documents list: all but those of definitions that are not established.
    pub fn listed_rows(&self) -> &kind::Kinds {
        self.listed.as_ref().unwrap_or(&self.rows)
    }

    /// The resource with this group, version and plural.
    pub fn lookup(&self, group: &str, version: &str, plural: &str) -> Option<Served> {
        self.rows.lookup(group, version, plural).map(|row| self.served(row))
    }

    /// The resource with this group, version and kind.
    pub fn lookup_kind(&self, group: &str, version: &str, kind: &str) -> Option<Served> {
        self.rows.lookup_kind(group, version, kind).map(|row| self.served(row))
    }

    /// The resource of a row, with its definition if it is custom and still served.
    pub fn served(&self, resource: &'static Resource) -> Served {
        Served { resource, custom: self.custom(resource) }
    }

    /// The version of a custom kind that the row belongs to.
    pub fn custom(&self, resource: &Resource) -> Option<CustomVersion> {
        if !resource.is_custom() {
            return None;
        }
        let kind = self.definitions.get(&definition_key(resource.group, resource.plural))?;
        let index = kind.definition.versions.iter().position(|version| *version.name == *resource.version)?;
        Some(CustomVersion { kind: kind.clone(), index })
    }

    /// All custom kinds, by the keys of their definitions.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<CustomKind>> {
        self.definitions.values()
    }

    /// The custom kind with this group and plural, served or not.
    pub fn definition(&self, group: &str, plural: &str) -> Option<&Arc<CustomKind>> {
        self.definitions.get(&definition_key(group, plural))
    }

    /// The kind that a storage key belongs to, in its stored version.
    pub fn of_key(&self, key: &[u8]) -> Option<&'static Resource> {
        storage_key::kind_of(&self.rows, key)
    }
}

fn definition_key(group: &str, plural: &str) -> String {
    format!("{DEFINITIONS_ROOT}/{plural}.{group}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initializer_configurations_are_served_with_and_without_a_stored_definition() {
        let find =
            |kinds: &Kinds| kinds.lookup(initializers::GROUP, initializers::VERSION, initializers::PLURAL);
        assert!(find(&Kinds::built_in()).is_none());
        let kinds = Kinds::built_in().with_initializers();
        let own = find(&kinds).unwrap().custom.unwrap();
        assert!(own.definition().is_served() && own.kind.unstored.is_some());
        assert_eq!((own.kind.revision, own.kind.storage_row().plural), (0, initializers::PLURAL));
        let value = object::encode_stored(&initializers::definition()).into();
        let key = own.kind.key.clone();
        let raw = Raw { key: key.clone().into(), value, undecrypted: None, revision: 7, created: 7 };
        let stored = kinds.with([(key.as_str(), Some(&raw))].into_iter());
        assert_eq!(find(&stored).unwrap().custom.unwrap().kind.revision, 7);
        let removed = stored.with([(key.as_str(), None)].into_iter());
        assert_eq!(find(&removed).unwrap().custom.unwrap().kind.revision, 0);
    }
}

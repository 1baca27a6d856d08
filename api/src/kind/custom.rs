//! Resource rows of custom resources, made at run time from CustomResourceDefinitions. A row has only what
//! names, paths, keys and generic rules need; schemas, columns and conversion of the definition are kept
//! elsewhere.
//!
//! A row lives as long as the process, so that `&'static Resource` means the same for built-in and custom
//! kinds. Equal rows are made once: a definition that is deleted and created again gets its former rows.
//! [`MAX_CUSTOM_ROWS`] bounds the memory that clients can occupy by inventing names.

use crate::gate::GateSet;
use crate::group_version::model_name;
use crate::name::NameRule;
use crate::resource::{
    ALL_VERBS, CustomFacts, DefaultPropagation, FieldRule, GET_PATCH_UPDATE, GenerationRule, KindRules,
    Labels, Resource, SelectableFields, Subresource,
};
use crate::schema;
use crate::version::{Minor, Versions};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Most rows of custom resources that one process makes, over all definitions it ever served. At about 1 KiB
/// a row this is 64 MiB.
pub const MAX_CUSTOM_ROWS: usize = 1 << 16;

/// Error: the process has made [`MAX_CUSTOM_ROWS`] rows. The server refuses new custom kinds until it
/// restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this server has served {MAX_CUSTOM_ROWS} versions of custom resources since it started; restart it to serve new ones"
)]
pub struct TooManyKinds;

/// Input for the row of one version of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CustomRow {
    /// API group.
    pub group: String,
    /// Version inside the group.
    pub version: String,
    /// Lower-case plural, the URL segment.
    pub plural: String,
    /// Lower-case singular.
    pub singular: String,
    /// Kind of the objects.
    pub kind: String,
    /// Kind of their lists.
    pub list_kind: String,
    /// Short names kubectl accepts.
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `status` is a subresource.
    pub has_status: bool,
    /// Whether `scale` is a subresource.
    pub has_scale: bool,
    /// Member paths of the selectable fields of all versions, sorted. The label of a field is its path joined
    /// with dots.
    pub fields: Vec<Vec<String>>,
    /// Labels of the selectable fields that this version declares, sorted.
    pub selectable: Vec<String>,
    /// The version of Kubernetes that the server serves.
    pub minor: Minor,
}

impl CustomRow {
    /// Rows of all versions of one definition, in the order of `versions`. `stored` is the index of the
    /// storage version.
    ///
    /// # Errors
    /// [`TooManyKinds`] when the process has already made [`MAX_CUSTOM_ROWS`] rows.
    ///
    /// # Panics
    /// If `stored` is not an index of `versions`.
    pub fn rows(versions: &[Self], stored: usize) -> Result<Vec<&'static Resource>, TooManyKinds> {
        let storage = versions[stored].row(None)?;
        let row = |(at, version): (usize, &Self)| match at == stored {
            true => Ok(storage),
            false => version.row(Some(storage)),
        };
        versions.iter().enumerate().map(row).collect()
    }

    fn row(&self, stored_as: Option<&'static Resource>) -> Result<&'static Resource, TooManyKinds> {
        type Made = BTreeMap<(CustomRow, Option<usize>), &'static Resource>;
        static MADE: Mutex<Made> = Mutex::new(BTreeMap::new());
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        // The row of the storage version is itself made once, so its address identifies it.
        let key = (self.clone(), stored_as.map(|row| std::ptr::from_ref(row).addr()));
        if let Some(row) = made.get(&key) {
            return Ok(row);
        }
        if made.len() >= MAX_CUSTOM_ROWS {
            return Err(TooManyKinds);
        }
        let row = Box::leak(Box::new(self.make(stored_as)));
        made.insert(key, row);
        Ok(row)
    }

    fn make(&self, stored_as: Option<&'static Resource>) -> Resource {
        let (group, version, kind) = (text(&self.group), text(&self.version), text(&self.kind));
        let rules = KindRules { fields: self.selectable_fields(), ..KindRules::CUSTOM };
        let list_kind = if self.list_kind == format!("{kind}List") { "" } else { text(&self.list_kind) };
        Resource {
            group,
            version,
            plural: text(&self.plural),
            singular: text(&self.singular),
            kind,
            list_kind,
            short_names: texts(&self.short_names),
            categories: texts(&self.categories),
            namespaced: self.namespaced,
            verbs: ALL_VERBS,
            subresources: self.subresources(group, version, kind),
            schema: text(&model_name(group, version, kind)),
            object_type: None,
            storage: Some(text(&format!("/registry/{group}/{}", self.plural))),
            storage_version: None,
            generation: match self.has_status {
                true => GenerationRule::ContentButStatus,
                false => GenerationRule::Content,
            },
            unconditional_update: false,
            create_on_update: false,
            graceful_delete: false,
            returns_deleted: false,
            default_propagation: DefaultPropagation::Background,
            name_rule: NameRule::Subdomain,
            rules: Box::leak(Box::new(rules)),
            custom: Some(Box::leak(Box::new(CustomFacts { stored_as }))),
            minor: self.minor,
            gates: GateSet::DEFAULT,
            drops_unknown: false,
            deprecated: None,
            name_rule_without: None,
            generation_without: None,
            versions: Versions::ALL,
        }
    }

    fn subresources(
        &self,
        group: &'static str,
        version: &'static str,
        kind: &'static str,
    ) -> &'static [Subresource] {
        let scale = ("scale", "autoscaling", "v1", "Scale");
        let wanted = [(self.has_status, ("status", group, version, kind)), (self.has_scale, scale)];
        let made =
            wanted.into_iter().filter(|(wanted, _)| *wanted).map(|(_, (name, group, version, kind))| {
                let object_type = schema::of(group, version, kind).filter(|_| name == "scale");
                Subresource { name, group, version, kind, object_type, verbs: GET_PATCH_UPDATE, gate: "" }
            });
        Box::leak(made.collect())
    }

    /// The values of all versions' fields, since the watch cache keeps them once per object; of their labels,
    /// requests can use those that this version declares.
    fn selectable_fields(&self) -> SelectableFields {
        let read = |path: &Vec<String>| (text(&path.join(".")), FieldRule::At(texts(path)));
        let mut values: Vec<_> = self.fields.iter().map(read).collect();
        values.sort_unstable_by_key(|(label, _)| *label);
        let labels: Vec<_> = self.selectable.iter().map(|label| text(label)).map(|own| (own, own)).collect();
        let labels = Labels::Only(Box::leak(labels.into()));
        SelectableFields::of(Box::leak(values.into())).labelled(labels)
    }
}

fn text(text: &str) -> &'static str {
    Box::leak(text.into())
}

fn texts(texts: &[String]) -> &'static [&'static str] {
    Box::leak(texts.iter().map(|one| text(one)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, plural: &str) -> CustomRow {
        CustomRow {
            group: "stable.example.com".into(),
            version: name.into(),
            plural: plural.into(),
            singular: "crontab".into(),
            kind: "CronTab".into(),
            list_kind: "CronTabList".into(),
            namespaced: true,
            has_status: true,
            has_scale: true,
            fields: vec![vec!["spec".into(), "image".into()]],
            selectable: vec!["spec.image".into()],
            ..CustomRow::default()
        }
    }

    #[test]
    fn equal_versions_share_one_row() {
        let versions = [version("v1", "crontabs"), version("v2", "crontabs")];
        let rows = CustomRow::rows(&versions, 0).unwrap();
        let again = CustomRow::rows(&versions, 0).unwrap();
        assert!(rows.iter().zip(&again).all(|(a, b)| std::ptr::eq(*a, *b)));
        let turned = CustomRow::rows(&versions, 1).unwrap();
        assert!(rows.iter().zip(&turned).all(|(a, b)| !std::ptr::eq(*a, *b)));
        assert_eq!((rows[1].storage_row().version, turned[0].storage_row().version), ("v1", "v2"));
    }

    #[test]
    fn custom_rows_have_the_keys_and_subresources_of_their_definition() {
        let row = CustomRow::rows(&[version("v1", "tabs")], 0).unwrap()[0];
        assert_eq!(row.storage_key("ns", "a"), "/registry/stable.example.com/tabs/ns/a");
        assert_eq!(row.schema, "com.example.stable.v1.CronTab");
        assert_eq!(
            (row.qualified(), row.list_kind()),
            ("tabs.stable.example.com".into(), "CronTabList".into())
        );
        let subresources: Vec<_> =
            row.subresources.iter().map(|sub| (sub.name, sub.group, sub.kind)).collect();
        assert_eq!(
            subresources,
            [("status", "stable.example.com", "CronTab"), ("scale", "autoscaling", "Scale")]
        );
        assert_eq!(row.generation, GenerationRule::ContentButStatus);
    }

    #[test]
    fn field_selectors_of_custom_resources_accept_declared_fields_only() {
        use crate::selector::field::Selector;
        let row = CustomRow::rows(&[version("v1", "fields")], 0).unwrap()[0];
        let object = serde_json::json!({"metadata": {"name": "a"}, "spec": {"image": "nginx"}});
        let parse = |text: &str| Selector::parse(text).unwrap().check(row);
        assert!(parse("spec.image=nginx").unwrap().matches(row, &object));
        assert!(!parse("spec.image!=nginx,metadata.name=a").unwrap().matches(row, &object));
        assert_eq!(parse("spec.x=1").unwrap_err().0, "field label not supported: spec.x");
    }
}

//! [`Definition`]: a custom kind as constants, and the CustomResourceDefinition that they make with schemas of `spec` and `status`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    SelectableField, ValidationRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// What defines a custom kind beside its schemas. The fields are those of a CustomResourceDefinition with one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// As `stable.example.com`.
    pub group: &'static str,
    /// As `v1`.
    pub version: &'static str,
    /// As `CronTab`.
    pub kind: &'static str,
    /// As `crontabs`.
    pub plural: &'static str,
    /// As `crontab`.
    pub singular: &'static str,
    /// As `ct`.
    pub short_names: &'static [&'static str],
    /// As `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// Whether `status` is a subresource.
    pub has_status: bool,
    /// The subresource `scale`.
    pub scale: Option<Scale>,
    /// Columns of `kubectl get`. Without any, there is the age.
    pub columns: &'static [Column],
    /// JSON paths of fields that field selectors may name, as `.spec.color`.
    pub selectable: &'static [&'static str],
    /// Rules on whole objects.
    pub rules: &'static [Rule],
    /// What clients of this version are warned of; empty for the server's own text. `None` if it is not deprecated.
    pub deprecated: Option<&'static str>,
}

/// JSON paths of the subresource `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Of the wanted replicas, as `.spec.replicas`.
    pub spec: &'static str,
    /// Of the replicas that are, as `.status.replicas`.
    pub status: &'static str,
    /// Of the selector of the replicas as a text, as `.status.selector`.
    pub selector: Option<&'static str>,
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub value_type: &'static str,
    /// As `.spec.schedule`.
    pub json_path: &'static str,
    /// For those who ask what it shows.
    pub description: Option<&'static str>,
    /// Above 0: only with `-o wide`.
    pub priority: Option<i32>,
    /// As `int32` or `date-time`.
    pub format: Option<&'static str>,
}

/// A rule in CEL. `self` is the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// As `self.spec.min <= self.spec.max`.
    pub rule: &'static str,
    /// What refused clients read.
    pub message: Option<&'static str>,
    /// The same, as an expression.
    pub message_expression: Option<&'static str>,
    /// `FieldValueInvalid` unless said otherwise.
    pub reason: Option<&'static str>,
    /// The field that is refused, as `.spec.max`.
    pub field_path: Option<&'static str>,
    /// Whether a rule with `oldSelf` is also evaluated where there is no old value.
    pub optional_old_self: Option<bool>,
}

impl Definition {
    /// The CustomResourceDefinition with these schemas of `spec` and `status`. The object's own description is that of `spec`.
    pub fn with_schemas(
        &self,
        spec: JSONSchemaProps,
        status: Option<JSONSchemaProps>,
    ) -> CustomResourceDefinition {
        let name = format!("{}.{}", self.plural, self.group);
        CustomResourceDefinition {
            metadata: ObjectMeta { name: Some(name), ..ObjectMeta::default() },
            spec: CustomResourceDefinitionSpec {
                group: self.group.to_owned(),
                names: self.names(),
                scope: if self.is_namespaced { "Namespaced" } else { "Cluster" }.to_owned(),
                versions: vec![self.version(self.object_schema(spec, status))],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }

    fn names(&self) -> CustomResourceDefinitionNames {
        CustomResourceDefinitionNames {
            kind: self.kind.to_owned(),
            list_kind: Some(format!("{}List", self.kind)),
            plural: self.plural.to_owned(),
            singular: Some(self.singular.to_owned()),
            short_names: texts(self.short_names),
            categories: texts(self.categories),
        }
    }

    fn version(&self, schema: JSONSchemaProps) -> CustomResourceDefinitionVersion {
        let scale = self.scale.map(|scale| CustomResourceSubresourceScale {
            spec_replicas_path: scale.spec.to_owned(),
            status_replicas_path: scale.status.to_owned(),
            label_selector_path: scale.selector.map(str::to_owned),
        });
        let status = self.has_status.then(|| CustomResourceSubresourceStatus(serde_json::json!({})));
        let has_subresources = scale.is_some() || status.is_some();
        let selectable = self.selectable.iter().map(|path| SelectableField { json_path: (*path).to_owned() });
        CustomResourceDefinitionVersion {
            name: self.version.to_owned(),
            served: true,
            storage: true,
            deprecated: self.deprecated.map(|_| true),
            deprecation_warning: self.deprecated.filter(|text| !text.is_empty()).map(str::to_owned),
            schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema) }),
            subresources: has_subresources.then_some(CustomResourceSubresources { scale, status }),
            additional_printer_columns: list(self.columns.iter().copied().map(Column::to_api)),
            selectable_fields: list(selectable),
        }
    }

    fn object_schema(&self, spec: JSONSchemaProps, status: Option<JSONSchemaProps>) -> JSONSchemaProps {
        let description = spec.description.clone();
        let mut properties = BTreeMap::from([("spec".to_owned(), spec)]);
        properties.extend(status.map(|status| ("status".to_owned(), status)));
        JSONSchemaProps {
            description,
            type_: Some("object".to_owned()),
            properties: Some(properties),
            required: Some(vec!["spec".to_owned()]),
            x_kubernetes_validations: list(self.rules.iter().copied().map(Rule::to_api)),
            ..JSONSchemaProps::default()
        }
    }
}

impl Column {
    fn to_api(self) -> CustomResourceColumnDefinition {
        CustomResourceColumnDefinition {
            name: self.name.to_owned(),
            type_: self.value_type.to_owned(),
            json_path: self.json_path.to_owned(),
            description: self.description.map(str::to_owned),
            priority: self.priority,
            format: self.format.map(str::to_owned),
        }
    }
}

impl Rule {
    fn to_api(self) -> ValidationRule {
        ValidationRule {
            rule: self.rule.to_owned(),
            message: self.message.map(str::to_owned),
            message_expression: self.message_expression.map(str::to_owned),
            reason: self.reason.map(str::to_owned),
            field_path: self.field_path.map(str::to_owned),
            optional_old_self: self.optional_old_self,
        }
    }
}

fn texts(texts: &[&str]) -> Option<Vec<String>> {
    list(texts.iter().map(|text| (*text).to_owned()))
}

/// The items, if there are any.
fn list<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.collect();
    (!items.is_empty()).then_some(items)
}

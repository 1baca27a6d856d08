//! [`Definition`]: a custom kind as constants. With schemas of `spec` and `status` it makes a
//! CustomResourceDefinition.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    SelectableField, ValidationRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// The definition of a custom kind without its schemas. The fields are those of a CustomResourceDefinition
/// with one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The API group, such as `stable.example.com`.
    pub group: &'static str,
    /// The version, such as `v1`.
    pub version: &'static str,
    /// The kind, such as `CronTab`.
    pub kind: &'static str,
    /// The plural name, such as `crontabs`.
    pub plural: &'static str,
    /// The singular name, such as `crontab`.
    pub singular: &'static str,
    /// The short names, such as `ct`.
    pub short_names: &'static [&'static str],
    /// The categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether the objects are namespaced.
    pub is_namespaced: bool,
    /// Whether `status` is a subresource.
    pub has_status: bool,
    /// The `scale` subresource.
    pub scale: Option<Scale>,
    /// The columns of `kubectl get`. Without columns, kubectl shows the age.
    pub columns: &'static [Column],
    /// The JSON paths of fields that field selectors may use, such as `.spec.color`.
    pub selectable: &'static [&'static str],
    /// The validation rules for whole objects.
    pub rules: &'static [Rule],
    /// The deprecation warning for clients of this version; empty for the server's own text. `None` if the
    /// version is not deprecated.
    pub deprecated: Option<&'static str>,
}

/// The JSON paths of the `scale` subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The path of the desired replicas, such as `.spec.replicas`.
    pub spec: &'static str,
    /// The path of the existing replicas, such as `.status.replicas`.
    pub status: &'static str,
    /// The path of the label selector as a string, such as `.status.selector`.
    pub selector: Option<&'static str>,
}

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column name.
    pub name: &'static str,
    /// The type: `integer`, `number`, `string`, `boolean` or `date`.
    pub value_type: &'static str,
    /// The JSON path, such as `.spec.schedule`.
    pub json_path: &'static str,
    /// The description for users.
    pub description: Option<&'static str>,
    /// The priority. kubectl shows a column with a priority above 0 only with `-o wide`.
    pub priority: Option<i32>,
    /// The format, such as `int32` or `date-time`.
    pub format: Option<&'static str>,
}

/// A CEL validation rule. `self` is the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The expression, such as `self.spec.min <= self.spec.max`.
    pub rule: &'static str,
    /// The error message for users.
    pub message: Option<&'static str>,
    /// An expression for the error message.
    pub message_expression: Option<&'static str>,
    /// The error reason; `FieldValueInvalid` if `None`.
    pub reason: Option<&'static str>,
    /// The path of the field in the error, such as `.spec.max`.
    pub field_path: Option<&'static str>,
    /// Whether the server evaluates a rule with `oldSelf` also without an old value.
    pub optional_old_self: Option<bool>,
}

impl Definition {
    /// The CustomResourceDefinition with these schemas of `spec` and `status`. The description of the object
    /// is that of `spec`.
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

/// The items; `None` if there are none.
fn list<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.collect();
    (!items.is_empty()).then_some(items)
}

//! The members of a Stage document, as YAML has them. Members that KWOK does not have are refused.

use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StageDocument {
    #[serde(rename = "apiVersion")]
    pub(crate) _api_version: String,
    #[serde(rename = "kind")]
    pub(crate) _kind: String,
    pub(crate) metadata: StageMetadata,
    pub(crate) spec: StageSpec,
    #[serde(rename = "status")]
    pub(crate) _status: Option<serde::de::IgnoredAny>,
}

/// The name; other metadata says nothing here.
#[derive(Deserialize)]
pub(crate) struct StageMetadata {
    #[serde(default)]
    pub(crate) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StageSpec {
    pub(crate) resource_ref: ResourceRef,
    pub(crate) selector: Option<SelectorDocument>,
    #[serde(default)]
    pub(crate) weight: i64,
    pub(crate) weight_from: Option<ExpressionFrom>,
    pub(crate) delay: Option<DelayDocument>,
    pub(crate) next: Option<NextDocument>,
    #[serde(default)]
    pub(crate) immediate_next_stage: Option<bool>,
    #[serde(default)]
    pub(crate) steps: Vec<StepDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResourceRef {
    #[serde(default)]
    pub(crate) api_group: String,
    pub(crate) kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SelectorDocument {
    #[serde(default)]
    pub(crate) match_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) match_annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) match_expressions: Vec<MatchExpression>,
}

/// One of: `cel`, `jq`, and the older form with `key`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct MatchExpression {
    pub(crate) cel: Option<ExpressionText>,
    pub(crate) jq: Option<Requirement>,
    pub(crate) key: Option<String>,
    pub(crate) operator: Option<Operator>,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) operator: Operator,
    #[serde(default)]
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpressionText {
    pub(crate) expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExpressionFrom {
    pub(crate) cel: Option<ExpressionText>,
    pub(crate) jq: Option<ExpressionText>,
    pub(crate) expression_from: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DelayDocument {
    pub(crate) duration_milliseconds: Option<i64>,
    pub(crate) duration_from: Option<ExpressionFrom>,
    pub(crate) jitter_duration_milliseconds: Option<i64>,
    pub(crate) jitter_duration_from: Option<ExpressionFrom>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NextDocument {
    pub(crate) event: Option<EventDocument>,
    pub(crate) finalizers: Option<FinalizersDocument>,
    #[serde(default)]
    pub(crate) delete: bool,
    #[serde(default)]
    pub(crate) patches: Vec<PatchDocument>,
    #[serde(default)]
    pub(crate) status_template: String,
    pub(crate) status_subresource: Option<String>,
    pub(crate) status_patch_as: Option<Impersonation>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StepDocument {
    pub(crate) patch: Option<PatchDocument>,
    pub(crate) event: Option<EventDocument>,
    pub(crate) finalizers: Option<FinalizersDocument>,
    #[serde(default)]
    pub(crate) delete: bool,
    pub(crate) apply: Option<ApplyDocument>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EventDocument {
    #[serde(default, rename = "type")]
    pub(crate) event_type: String,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FinalizersDocument {
    #[serde(default)]
    pub(crate) add: Vec<Finalizer>,
    #[serde(default)]
    pub(crate) remove: Vec<Finalizer>,
    #[serde(default)]
    pub(crate) empty: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finalizer {
    pub(crate) value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PatchDocument {
    #[serde(default)]
    pub(crate) subresource: String,
    #[serde(default)]
    pub(crate) root: String,
    #[serde(default)]
    pub(crate) template: String,
    #[serde(rename = "type")]
    pub(crate) form: Option<PatchType>,
    pub(crate) impersonation: Option<Impersonation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ApplyDocument {
    #[serde(default)]
    pub(crate) template: String,
    #[serde(default)]
    pub(crate) subresource: String,
    #[serde(rename = "type")]
    pub(crate) form: Option<PatchType>,
    pub(crate) impersonation: Option<Impersonation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Impersonation {
    #[serde(rename = "username")]
    pub(crate) _username: String,
}

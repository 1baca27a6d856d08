//! [`Selection`]: selection of requests for a webhook, policy or binding, in Kubernetes' order: namespace
//! selector, object selector, rules, equivalent resources. Match conditions follow separately.

use super::attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation};
use super::equivalent::Equivalent;
use super::rule::Rule;
use crate::meta;
use crate::selector::label::{Selector, SelectorError};
use crate::status::Status;
use serde_json::Value;

/// Facts about the cluster for matching requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterFacts<'a> {
    /// The Namespace object of the request's namespace; `None` if it does not exist or the request has none.
    pub namespace: Option<&'a Value>,
    /// Equivalent resources of the request, from [`super::equivalent::equivalents`].
    pub equivalents: &'a [Equivalent],
}

/// Resource and kind in which a webhook or policy sees a request: the request's own, or an equivalent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedForm<'a> {
    /// Resource that a rule matched.
    pub resource: GroupVersionResource<'a>,
    /// Kind of that resource or subresource.
    pub kind: GroupVersionKind<'a>,
}

/// Selectors, rules and match policy of a webhook, policy or binding.
#[derive(Clone, Debug)]
pub struct Selection {
    namespaces: Result<Selector, SelectorError>,
    objects: Result<Selector, SelectorError>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    equivalent: bool,
    /// Whether an empty list of rules matches every request, as in bindings.
    any_without_rules: bool,
}

impl Selection {
    /// Parses the selectors, `rules` and `matchPolicy` of one webhook.
    #[must_use]
    pub fn of_webhook(webhook: &Value) -> Self {
        Self { rules: Rule::read_all(&webhook["rules"]), ..Self::read(webhook) }
    }

    /// Parses the `matchConstraints` of a policy.
    #[must_use]
    pub fn of_constraints(constraints: &Value) -> Self {
        Self {
            rules: Rule::read_all(&constraints["resourceRules"]),
            excluded: Rule::read_all(&constraints["excludeResourceRules"]),
            ..Self::read(constraints)
        }
    }

    /// Parses the `matchResources` of a binding. Without rules it matches all requests of its policy.
    #[must_use]
    pub fn of_binding(resources: &Value) -> Self {
        Self { any_without_rules: true, ..Self::of_constraints(resources) }
    }

    fn read(owner: &Value) -> Self {
        Self {
            namespaces: Selector::from_object(&owner["namespaceSelector"]),
            objects: Selector::from_object(&owner["objectSelector"]),
            rules: Vec::new(),
            excluded: Vec::new(),
            equivalent: owner["matchPolicy"] == "Equivalent",
            any_without_rules: false,
        }
    }

    /// The rules, without exclude rules.
    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The form in which the request matches; `None` if it does not match.
    ///
    /// # Errors
    /// The namespace does not exist (404), or a stored selector is malformed (500). Only for requests that a
    /// rule matches.
    pub fn matches<'a>(
        &self,
        attributes: &Attributes<'a>,
        facts: &ClusterFacts<'a>,
    ) -> Result<Option<MatchedForm<'a>>, Status> {
        let namespaces = self.matches_namespace(attributes, facts);
        if matches!(namespaces, Ok(false)) {
            return Ok(None);
        }
        let objects = self.matches_object(attributes);
        if matches!(objects, Ok(false)) {
            return Ok(None);
        }
        if self.find(&self.excluded, attributes, facts).is_some() {
            return Ok(None);
        }
        let own = MatchedForm { resource: attributes.resource, kind: attributes.kind };
        let matched = if self.any_without_rules && self.rules.is_empty() {
            Some(own)
        } else {
            self.find(&self.rules, attributes, facts)
        };
        let Some(matched) = matched else { return Ok(None) };
        namespaces?;
        objects?;
        Ok(Some(matched))
    }

    /// The first form that a rule matches: the request's own before equivalent ones.
    fn find<'a>(
        &self,
        rules: &[Rule],
        attributes: &Attributes<'a>,
        facts: &ClusterFacts<'a>,
    ) -> Option<MatchedForm<'a>> {
        if rules.iter().any(|rule| rule.matches(attributes, attributes.resource)) {
            return Some(MatchedForm { resource: attributes.resource, kind: attributes.kind });
        }
        if !self.equivalent {
            return None;
        }
        let others = || facts.equivalents.iter().filter(|other| other.resource() != attributes.resource);
        let find = |rule: &Rule| others().find(|other| rule.matches(attributes, other.resource()));
        let other = rules.iter().find_map(find)?;
        Some(MatchedForm { resource: other.resource(), kind: other.kind() })
    }

    fn matches_namespace(
        &self,
        attributes: &Attributes<'_>,
        facts: &ClusterFacts<'_>,
    ) -> Result<bool, Status> {
        if attributes.namespace.is_empty() && attributes.resource.resource != "namespaces" {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        // For writes of a Namespace, the request has its future labels.
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let is_own =
            writes && attributes.resource.resource == "namespaces" && attributes.subresource.is_empty();
        let namespace = if is_own { attributes.object } else { facts.namespace };
        match namespace {
            Some(namespace) => Ok(selector.matches(&meta::labels(namespace))),
            None => Err(Status::not_found(("", "namespaces"), attributes.namespace)),
        }
    }

    fn matches_object(&self, attributes: &Attributes<'_>) -> Result<bool, Status> {
        let selector = self.objects.as_ref().map_err(Status::internal)?;
        // Objects without metadata, such as the options of a stream, have no labels to match.
        let selected = |object: Option<&Value>| {
            object.is_some_and(|o| o["metadata"].is_object() && selector.matches(&meta::labels(o)))
        };
        Ok(selector.is_everything() || selected(attributes.object) || selected(attributes.old_object))
    }
}

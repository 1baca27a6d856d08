//! [`Stage`]: when an object follows it, and what it then does. Pure.

use crate::document::{DelayDocument, SelectorDocument, StageDocument};
use crate::effect::{self, Effect, Step};
use crate::expression::{Amount, Condition, WorkBudget};
use crate::functions::StageFunctions;
use crate::set::Kind;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const NANOS_PER_MILLISECOND: i64 = 1_000_000;

/// A compiled stage.
#[derive(Debug)]
pub struct Stage {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    conditions: Vec<Condition>,
    weight: Amount,
    duration: Option<Amount>,
    jitter: Option<Amount>,
    steps: Vec<Step>,
    is_immediate: bool,
}

impl Stage {
    /// Compiles a document; `None` if it has no selector, and so selects nothing.
    pub(crate) fn compile(document: StageDocument) -> Result<Option<(Kind, Self)>, String> {
        let StageDocument { metadata, spec, .. } = document;
        let kind = Kind::of(&spec.resource_ref.api_group, &spec.resource_ref.kind);
        let is_typed = kind.is_pod() || kind.is_node();
        let steps = effect::compile(spec.steps, spec.next, is_typed)?;
        let Some(SelectorDocument { match_labels, match_annotations, match_expressions }) = spec.selector
        else {
            return Ok(None);
        };
        let mut conditions = Vec::new();
        for (index, expression) in match_expressions.into_iter().enumerate() {
            let condition = Condition::compile(expression);
            conditions
                .push(condition.map_err(|problem| format!("selector.matchExpressions[{index}]: {problem}"))?);
        }
        let weight = Amount::compile(Some(spec.weight), spec.weight_from);
        let weight = weight.map_err(|problem| format!("weightFrom: {problem}"))?;
        let (duration, jitter) = delays(spec.delay)?;
        let stage = Self {
            name: metadata.name,
            labels: match_labels,
            annotations: match_annotations,
            conditions,
            weight,
            duration,
            jitter,
            steps,
            is_immediate: spec.immediate_next_stage.unwrap_or(false),
        };
        Ok(Some((kind, stage)))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the object's next stage follows without waiting for the watch.
    pub fn is_immediate(&self) -> bool {
        self.is_immediate
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Whether the stage selects an object.
    pub(crate) fn selects(&self, object: &Value, budget: &mut WorkBudget) -> bool {
        let has = |wanted: &BTreeMap<String, String>, member: &Value| {
            wanted.iter().all(|(name, value)| member[name.as_str()] == **value)
        };
        let metadata = &object["metadata"];
        has(&self.labels, &metadata["labels"])
            && has(&self.annotations, &metadata["annotations"])
            && self.conditions.iter().all(|condition| condition.holds(object, budget))
    }

    /// The weight; `None` if its expression gives none.
    pub(crate) fn weight(&self, object: &Value, budget: &mut WorkBudget) -> Option<i64> {
        self.weight.weight(object, budget)
    }

    /// How long after `now` the stage is played: between duration and jitter, where `draw` says.
    pub fn delay(&self, object: &Value, now: Timestamp, draw: u64) -> Duration {
        let mut budget = WorkBudget::new();
        let mut of = |amount: &Option<Amount>| {
            amount.as_ref().and_then(|amount| amount.duration(object, now, &mut budget))
        };
        let nanos = match (of(&self.duration), of(&self.jitter)) {
            (None, _) => 0,
            (Some(duration), None) => duration,
            (Some(duration), Some(jitter)) if jitter <= duration => jitter,
            (Some(duration), Some(jitter)) => {
                let span = jitter.abs_diff(duration);
                duration.saturating_add_unsigned(draw % span)
            }
        };
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// The effect of a step on an object; `None` if there is nothing to do.
    ///
    /// # Errors
    /// A template that fails on the object, with its path and line.
    pub fn effect(
        &self,
        step: usize,
        object: &Value,
        functions: &StageFunctions<'_>,
    ) -> Result<Option<Effect>, String> {
        match self.steps.get(step) {
            Some(step) => step.effect(object, functions),
            None => Ok(None),
        }
    }
}

/// Duration and jitter. A duration that only an expression gives is zero where that gives none, as with KWOK.
fn delays(delay: Option<DelayDocument>) -> Result<(Option<Amount>, Option<Amount>), String> {
    let Some(delay) = delay else { return Ok((None, None)) };
    let nanos = |millis: i64| millis.saturating_mul(NANOS_PER_MILLISECOND);
    let duration =
        Amount::compile(Some(nanos(delay.duration_milliseconds.unwrap_or(0))), delay.duration_from);
    let duration = duration.map_err(|problem| format!("delay.durationFrom: {problem}"))?;
    let jitter = Amount::compile(delay.jitter_duration_milliseconds.map(nanos), delay.jitter_duration_from);
    let jitter = jitter.map_err(|problem| format!("delay.jitterDurationFrom: {problem}"))?;
    Ok((Some(duration), Some(jitter)))
}

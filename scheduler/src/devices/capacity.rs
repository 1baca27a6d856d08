//! Capacities of devices: what a request consumes of a device that several claims can share, and whether a
//! device has what a request asks for. Pure.

use kstore_api::quantity::{Format, Quantity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A capacity of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The whole capacity.
    pub value: Quantity,
    /// How requests consume it; `None` if a request consumes what it says.
    pub policy: Option<RequestPolicy>,
}

/// The amounts that requests may consume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestPolicy {
    /// The amount for a request that says none.
    pub default: Option<Quantity>,
    /// The only amounts, ascending; empty if they are not listed.
    pub values: Vec<Quantity>,
    /// The range of the amounts.
    pub range: Option<Range>,
}

/// A range of amounts.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The smallest amount.
    pub min: Option<Quantity>,
    /// The largest amount.
    pub max: Option<Quantity>,
    /// The distance between two amounts, counted from the smallest.
    pub step: Option<Quantity>,
}

/// Amounts by the name of the capacity.
pub type Amounts = BTreeMap<String, Quantity>;

/// What a request consumes of each capacity of a device; `None` if the device lacks a requested capacity, or a
/// policy does not allow the amount.
pub fn consumed(requested: &Amounts, capacities: &BTreeMap<String, Capacity>) -> Option<Amounts> {
    if requested.keys().any(|name| !capacities.contains_key(name)) {
        return None;
    }
    let amount = |(name, capacity): (&String, &Capacity)| {
        let amount = capacity.amount(requested.get(name).copied());
        capacity.allows(amount).then(|| (name.clone(), amount))
    };
    capacities.iter().map(amount).collect()
}

/// Whether `consumed` fits into the capacities beside what `others` consume.
pub fn fits(consumed: &Amounts, others: &[&Amounts], capacities: &BTreeMap<String, Capacity>) -> bool {
    consumed.iter().all(|(name, amount)| {
        let used = others.iter().filter_map(|other| other.get(name));
        let total = used.fold(*amount, |total, used| total.add(*used));
        capacities.get(name).is_some_and(|capacity| total <= capacity.value)
    })
}

impl Capacity {
    /// The amount that a request consumes: rounded up to the next amount of the policy.
    fn amount(&self, requested: Option<Quantity>) -> Quantity {
        let Some(requested) = requested else {
            return self.policy.as_ref().and_then(|policy| policy.default).unwrap_or(self.value);
        };
        let Some(policy) = &self.policy else { return requested };
        match &policy.range {
            Some(range) if range.min.is_some() => range.round_up(requested),
            _ => policy.values.iter().copied().find(|value| requested <= *value).unwrap_or(requested),
        }
    }

    fn allows(&self, amount: Quantity) -> bool {
        let Some(policy) = &self.policy else { return true };
        match &policy.range {
            _ if policy.default == Some(amount) => true,
            Some(range) => range.contains(amount),
            None => policy.values.is_empty() || policy.values.contains(&amount),
        }
    }
}

impl Range {
    fn steps(&self) -> Option<(i64, i64)> {
        let step = self.step.map(Quantity::units).filter(|step| *step > 0)?;
        Some((self.min.map_or(0, Quantity::units), step))
    }

    fn round_up(&self, requested: Quantity) -> Quantity {
        let least = self.min.filter(|min| requested < *min);
        match (least, self.steps()) {
            (Some(min), _) => min,
            (None, None) => requested,
            (None, Some((min, step))) => {
                let more = requested.units().saturating_sub(min);
                let steps = more / step + i64::from(more % step != 0);
                Quantity::from_units(min.saturating_add(step.saturating_mul(steps)), Format::BinarySi)
            }
        }
    }

    fn contains(&self, amount: Quantity) -> bool {
        let is_step = |(min, step): (i64, i64)| amount.units().saturating_sub(min) % step == 0;
        self.max.is_none_or(|max| amount <= max) && self.steps().is_none_or(is_step)
    }
}

/// A capacity in JSON.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CapacityDoc {
    value: String,
    request_policy: Option<PolicyDoc>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicyDoc {
    default: Option<String>,
    valid_values: Option<Vec<String>>,
    valid_range: Option<RangeDoc>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RangeDoc {
    min: Option<String>,
    max: Option<String>,
    step: Option<String>,
}

fn quantity(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok()
}

impl CapacityDoc {
    /// The capacity; `None` for an invalid quantity, which the apiserver does not store.
    pub(super) fn capacity(self) -> Option<Capacity> {
        let read = |text: Option<String>| text.as_deref().and_then(quantity);
        let policy = self.request_policy.map(|policy| RequestPolicy {
            default: read(policy.default),
            values: policy
                .valid_values
                .unwrap_or_default()
                .iter()
                .filter_map(|text| quantity(text))
                .collect(),
            range: policy.valid_range.map(|range| Range {
                min: read(range.min),
                max: read(range.max),
                step: read(range.step),
            }),
        });
        Some(Capacity { value: quantity(&self.value)?, policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn capacities(policy: serde_json::Value) -> BTreeMap<String, Capacity> {
        let doc: CapacityDoc =
            serde_json::from_value(json!({ "value": "10Gi", "requestPolicy": policy })).unwrap();
        BTreeMap::from([("memory".to_owned(), doc.capacity().unwrap())])
    }

    fn amounts(texts: &[(&str, &str)]) -> Amounts {
        texts.iter().map(|(name, text)| ((*name).to_owned(), quantity(text).unwrap())).collect()
    }

    #[test]
    fn a_request_consumes_the_next_amount_that_the_policy_allows() {
        let range = json!({ "default": "1Gi", "validRange": { "min": "1Gi", "max": "8Gi", "step": "2Gi" } });
        let values = json!({ "default": "2Gi", "validValues": ["2Gi", "4Gi"] });
        let cases = [
            (json!(null), Some("3Gi"), Some("3Gi")),
            (json!(null), None, Some("10Gi")),
            (range.clone(), None, Some("1Gi")),
            (range.clone(), Some("500Mi"), Some("1Gi")),
            (range.clone(), Some("2Gi"), Some("3Gi")),
            (range.clone(), Some("3Gi"), Some("3Gi")),
            (range, Some("8Gi"), None),
            (values.clone(), None, Some("2Gi")),
            (values.clone(), Some("3Gi"), Some("4Gi")),
            (values, Some("5Gi"), None),
        ];
        for (policy, requested, expected) in cases {
            let requested = amounts(&requested.map(|text| ("memory", text)).into_iter().collect::<Vec<_>>());
            let found = consumed(&requested, &capacities(policy.clone()));
            let expected = expected.map(|text| amounts(&[("memory", text)]));
            assert_eq!(found, expected, "{policy} {requested:?}");
        }
        assert_eq!(consumed(&amounts(&[("cores", "1")]), &capacities(json!(null))), None);
    }

    #[test]
    fn amounts_fit_until_their_sum_exceeds_the_capacity() {
        let capacities = capacities(json!(null));
        let (four, six, seven) =
            (amounts(&[("memory", "4Gi")]), amounts(&[("memory", "6Gi")]), amounts(&[("memory", "7Gi")]));
        assert!(fits(&four, &[&six], &capacities));
        assert!(!fits(&four, &[&seven], &capacities));
        assert!(!fits(&four, &[&four, &four], &capacities));
    }
}

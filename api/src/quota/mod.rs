//! Accounting of ResourceQuotas: the resources that an object uses ([`Usage`]), the objects that a quota
//! applies to ([`Quota`]), and whether a write fits ([`charge()`]). All functions are pure. Admission stores
//! charges and the controller recounts them with the same functions. `validate` checks ResourceQuotas
//! themselves.

mod charge;
mod devices;
mod evaluator;
mod limited;
mod pod;
mod scope;
mod usage;

#[cfg(test)]
mod tests;

use crate::quantity::Quantity;
pub use charge::{Change, Charges, Refusal, charge};
pub use devices::{ClaimDevices, DeviceNames, requests_of_pod};
pub use evaluator::{Evaluator, count_of, kinds_of};
pub use limited::LimitedResource;
pub use scope::{Quota, Selector};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
pub use usage::Usage;

/// Amounts of resources by quota name, for example `requests.cpu`.
pub type Amounts = BTreeMap<String, Quantity>;

/// Amounts in a member such as `spec.hard`. Malformed quantities, which validation refuses, are skipped.
pub fn amounts(value: &Value) -> Amounts {
    let read = |(name, amount): (&String, &Value)| Some((name.clone(), quantity(amount)?));
    value.as_object().into_iter().flatten().filter_map(read).collect()
}

/// JSON of amounts in canonical form.
pub fn to_value(amounts: &Amounts) -> Value {
    let members = amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string())));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Parses a quantity, which may be a JSON number.
fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

//! What ResourceQuotas bound: what an object uses of each bounded resource ([`Usage`]), to which objects a quota applies ([`Quota`]), and
//! whether a change of an object fits ([`charge()`]). Pure: admission stores the charges and the controller recounts them, both by these
//! functions. Whether a ResourceQuota itself is valid is `validate`'s matter.

mod charge;
mod evaluator;
mod pod;
mod scope;
mod usage;

#[cfg(test)]
mod tests;

pub use charge::{Change, Charges, Refusal, charge};
pub use evaluator::{Evaluator, count_of, kind_of};
pub use scope::{Quota, Selector};
pub use usage::Usage;

use crate::quantity::Quantity;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Amounts of resources by the names that quotas use, for example `requests.cpu`.
pub type Amounts = BTreeMap<String, Quantity>;

/// The amounts of a member such as `spec.hard`. Amounts that are no quantities are left out: validation lets none through.
pub fn amounts(value: &Value) -> Amounts {
    let read = |(name, amount): (&String, &Value)| Some((name.clone(), quantity(amount)?));
    value.as_object().into_iter().flatten().filter_map(read).collect()
}

/// Amounts as objects state them, in canonical form.
pub fn to_value(amounts: &Amounts) -> Value {
    let members = amounts.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string())));
    Value::Object(members.collect::<Map<_, _>>())
}

/// A quantity in JSON, which may be a number.
fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

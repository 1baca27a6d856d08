//! Taints of nodes and tolerations of pods, and when one covers the other. Not a filter: see `filter::taint_toleration`.

use serde::Deserialize;

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Effect {
    /// Keeps new pods away.
    NoSchedule,
    /// Is avoided where possible.
    PreferNoSchedule,
    /// Keeps new pods away and evicts running ones.
    NoExecute,
}

/// A mark on a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value; may be empty.
    #[serde(default)]
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// How a toleration compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Operator {
    /// Key and value must be equal.
    #[default]
    Equal,
    /// Any value will do.
    Exists,
    /// An operator this scheduler does not know; it covers nothing.
    #[serde(other)]
    Unknown,
}

/// A pod's statement that it bears certain taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Toleration {
    /// The taint's key; empty means every key.
    #[serde(default)]
    pub key: String,
    /// How the value compares.
    #[serde(default)]
    pub operator: Operator,
    /// The value that [`Operator::Equal`] asks for.
    #[serde(default)]
    pub value: String,
    /// The effect it is limited to; `None` means every effect.
    #[serde(default)]
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this toleration covers `taint`.
    pub fn covers(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator {
                Operator::Equal => self.value == taint.value,
                Operator::Exists => true,
                Operator::Unknown => false,
            }
    }
}

/// Whether any of `tolerations` covers `taint`.
pub fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|t| t.covers(taint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_covers_what_its_fields_admit() {
        let taint = Taint { key: "k".into(), value: "v".into(), effect: Effect::NoSchedule };
        let base = Toleration::default;
        let cases = [
            (Toleration { key: "k".into(), value: "v".into(), ..base() }, true),
            (Toleration { key: "k".into(), value: "w".into(), ..base() }, false),
            (Toleration { key: "j".into(), value: "v".into(), ..base() }, false),
            (Toleration { key: "k".into(), operator: Operator::Exists, ..base() }, true),
            (Toleration { operator: Operator::Exists, ..base() }, true),
            (Toleration { operator: Operator::Exists, effect: Some(Effect::NoExecute), ..base() }, false),
            (Toleration { operator: Operator::Exists, effect: Some(Effect::NoSchedule), ..base() }, true),
            (Toleration { operator: Operator::Unknown, ..base() }, false),
        ];
        for (toleration, expected) in cases {
            assert_eq!(toleration.covers(&taint), expected, "{toleration:?}");
        }
    }
}

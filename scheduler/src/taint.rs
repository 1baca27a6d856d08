//! Taints of nodes, tolerations of pods, and their matching. The filter is `filter::taint_toleration`.

use serde::Deserialize;

/// The effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Effect {
    /// New pods are not assigned to the node.
    NoSchedule,
    /// The scheduler avoids the node where possible.
    PreferNoSchedule,
    /// New pods are not assigned to the node, and running pods are evicted.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    #[serde(default)]
    pub value: String,
    /// The effect.
    pub effect: Effect,
}

/// The operator of a toleration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Operator {
    /// Key and value must be equal.
    #[default]
    Equal,
    /// Any value matches.
    Exists,
    /// An unknown operator; the toleration tolerates nothing.
    #[serde(other)]
    Unknown,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Toleration {
    /// The taint's key; empty matches every key.
    #[serde(default)]
    pub key: String,
    /// The operator.
    #[serde(default)]
    pub operator: Operator,
    /// The value for [`Operator::Equal`].
    #[serde(default)]
    pub value: String,
    /// The taint's effect; `None` matches every effect.
    #[serde(default)]
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Whether this toleration matches `taint`.
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

/// Whether any of `tolerations` matches `taint`.
pub fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|t| t.covers(taint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toleration_covers_matching_taints() {
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

//! [`Scoring`]: the strategies of the score of NodeResourcesFit. Each gives a resource 0 to 100 by the share of it that is used with the
//! pod on the node, and a node the mean over the resources by their weights.

use crate::fields::Fields;
use crate::limits::MAX_NODE_SCORE;
use crate::node_state::NodeState;
use crate::plugins::scored_resources::{RequestBasis, ResourceUse, ScoredResource};
use crate::plugins::shape::{SHAPE, Shape, ShapeFault};
use crate::pod::PodInfo;
use kstore_api::field::FieldErrorKind;
use serde_json::{Value, json};

const STRATEGY: &str = "scoringStrategy";
const RATIO: &str = "requestedToCapacityRatio";

/// How a node is scored by its resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scoring {
    strategy: Strategy,
    resources: Vec<ScoredResource>,
    /// Whether this is the default, which has a shorter computation.
    is_default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Strategy {
    /// The free share.
    LeastAllocated,
    /// The used share.
    MostAllocated,
    /// A function of the used share, linear between its points.
    RequestedToCapacityRatio(Shape),
}

impl Strategy {
    const NAMES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];

    fn name(&self) -> &'static str {
        match self {
            Self::LeastAllocated => Self::NAMES[0],
            Self::MostAllocated => Self::NAMES[1],
            Self::RequestedToCapacityRatio(_) => Self::NAMES[2],
        }
    }
}

impl Default for Scoring {
    fn default() -> Self {
        Self::new(Strategy::LeastAllocated, ScoredResource::defaults())
    }
}

impl Scoring {
    fn new(strategy: Strategy, resources: Vec<ScoredResource>) -> Self {
        let is_default =
            strategy == Strategy::LeastAllocated && resources[..] == ScoredResource::defaults()[..];
        Self { strategy, resources, is_default }
    }

    /// Reads `scoringStrategy`.
    pub(super) fn read(args: &mut Fields<'_>) -> Self {
        args.object(STRATEGY, |args| {
            let name = args.text("type").unwrap_or_default();
            let resources = ScoredResource::read(args);
            let shape = args.object(RATIO, |ratio| Shape::read(ratio).unwrap_or_default());
            if !Strategy::NAMES.contains(&&*name) {
                let supported = Strategy::NAMES.map(|name| format!("\"{name}\"")).join(", ");
                let text = format!("\"{name}\": supported values: {supported}");
                args.fails_without_value(FieldErrorKind::NotSupported, "type", &text);
            }
            for (index, resource) in resources.iter().enumerate() {
                if !(1..=100).contains(&resource.weight) {
                    let text = format!("resource weight of {} not in valid range (0, 100]", resource.name());
                    args.fails_invalid(&format!("resources[{index}].weight"), &json!(resource.weight), text);
                }
            }
            let strategy = match (&*name, shape) {
                ("RequestedToCapacityRatio", Some(shape)) => {
                    check_shape(args, &shape);
                    Strategy::RequestedToCapacityRatio(shape)
                }
                ("RequestedToCapacityRatio", None) => {
                    let text = "must be specified when type is RequestedToCapacityRatio";
                    args.fails_without_value(FieldErrorKind::Required, RATIO, text);
                    Strategy::RequestedToCapacityRatio(Shape::default())
                }
                (_, Some(_)) => {
                    let text = "must be nil when type is not RequestedToCapacityRatio";
                    args.fails_without_value(FieldErrorKind::Forbidden, RATIO, text);
                    Strategy::LeastAllocated
                }
                ("MostAllocated", None) => Strategy::MostAllocated,
                (_, None) => Strategy::LeastAllocated,
            };
            Self::new(strategy, resources)
        })
        .unwrap_or_default()
    }

    /// `scoringStrategy` as it is in effect.
    pub(super) fn print(&self) -> Value {
        let resources = ScoredResource::print(&self.resources);
        let mut printed = json!({ "type": self.strategy.name(), "resources": resources });
        if let Strategy::RequestedToCapacityRatio(shape) = &self.strategy {
            printed[RATIO] = json!({ SHAPE: shape.print() });
        }
        printed
    }

    /// Whether the score is the default one.
    pub(super) fn is_default(&self) -> bool {
        self.is_default
    }

    /// The score of the node with the pod, 0 to 100.
    pub(super) fn score(&self, pod: &PodInfo, node: &NodeState) -> i64 {
        let is_ratio = matches!(self.strategy, Strategy::RequestedToCapacityRatio(_));
        let (mut sum, mut weights) = (0, 0);
        for resource in &self.resources {
            let Some(used) = resource.used(pod, node, RequestBasis::NonZero) else { continue };
            let score = self.of_resource(used);
            // A resource that a shape values at nothing does not dilute the others.
            if score > 0 || !is_ratio {
                (sum, weights) = (sum + score * resource.weight, weights + resource.weight);
            }
        }
        match &self.strategy {
            _ if weights == 0 => 0,
            Strategy::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
            Strategy::LeastAllocated | Strategy::MostAllocated => sum / weights,
        }
    }

    fn of_resource(&self, used: ResourceUse) -> i64 {
        let used_percent = percent(used.taken + used.wanted, used.allocatable);
        match &self.strategy {
            Strategy::LeastAllocated => free_percent(used.taken + used.wanted, used.allocatable),
            Strategy::MostAllocated => used_percent,
            Strategy::RequestedToCapacityRatio(shape) => shape.at(used_percent),
        }
    }
}

fn check_shape(args: &mut Fields<'_>, shape: &Shape) {
    for ShapeFault { path, value, rule } in shape.faults() {
        let path = format!("{RATIO}.{path}");
        match value {
            None => args.fails_without_value(FieldErrorKind::Required, &path, rule),
            Some(value) => args.fails_invalid(&path, &json!(value), rule),
        }
    }
}

/// The used percentage, 0 to 100. The computation uses 128 bits: a hundred times a node's capacity may exceed 64.
fn percent(taken: i128, all: i128) -> i64 {
    let percent = taken.clamp(0, all) * i128::from(MAX_NODE_SCORE) / all;
    i64::try_from(percent).unwrap_or(MAX_NODE_SCORE)
}

/// The free percentage, 0 to 100.
pub(super) fn free_percent(taken: i128, all: i128) -> i64 {
    let percent = (all - taken) * i128::from(MAX_NODE_SCORE) / all;
    i64::try_from(percent.max(0)).map_or(MAX_NODE_SCORE, |percent| percent.min(MAX_NODE_SCORE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_share_of_the_largest_node_is_computed_without_overflow() {
        let all = i128::from(i64::MAX);
        assert_eq!([0, all / 2, all, 2 * all].map(|taken| free_percent(taken, all)), [100, 50, 0, 0]);
        assert_eq!([0, 3, 4, 5].map(|taken| free_percent(taken, 4)), [100, 25, 0, 0]);
        assert_eq!([0, all / 2, all, 2 * all].map(|taken| percent(taken, all)), [0, 49, 100, 100]);
    }
}

//! [`Scoring`]: the strategies of the score of NodeResourcesFit. Each gives a resource 0 to 100 by the share of it that is used with the
//! pod on the node, and a node the mean over the resources by their weights.

use crate::fields::Fields;
use crate::limits::MAX_NODE_SCORE;
use crate::node_state::NodeState;
use crate::plugins::scored_resources::{RequestBasis, ResourceUse, ScoredResource};
use crate::pod::PodInfo;
use kstore_api::field::FieldErrorKind;
use serde_json::{Value, json};

/// The largest score of a point of a shape.
const SHAPE_SCORE: i64 = 10;
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
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShapePoint {
    /// The used share, in per cent.
    utilization: i64,
    /// The score there, 0 to 10.
    score: i64,
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
            let shape = args.object(RATIO, |ratio| ratio.objects("shape", point).unwrap_or_default());
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
                    Strategy::RequestedToCapacityRatio(Vec::new())
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
            let point =
                |point: &ShapePoint| json!({ "utilization": point.utilization, "score": point.score });
            printed[RATIO] = json!({ "shape": shape.iter().map(point).collect::<Vec<_>>() });
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
            Strategy::RequestedToCapacityRatio(shape) => on_shape(shape, used_percent),
        }
    }
}

fn point(item: &mut Fields<'_>) -> ShapePoint {
    let mut number = |name| item.integer(name).unwrap_or_default();
    ShapePoint { utilization: number("utilization"), score: number("score") }
}

fn check_shape(args: &mut Fields<'_>, shape: &[ShapePoint]) {
    let place = |index: usize, name: &str| format!("{RATIO}.shape[{index}].{name}");
    if shape.is_empty() {
        let path = format!("{RATIO}.shape");
        return args.fails_without_value(
            FieldErrorKind::Required,
            &path,
            "at least one point must be specified",
        );
    }
    if let Some(at) = shape.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization) {
        let value = json!(shape[at + 1].utilization);
        let text = "values must be sorted in increasing order";
        args.fails_invalid(&place(at + 1, "utilization"), &value, text);
    }
    for (index, point) in shape.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let value = json!(point.utilization);
            args.fails_invalid(&place(index, "utilization"), &value, "not in valid range [0, 100]");
        }
        if !(0..=SHAPE_SCORE).contains(&point.score) {
            let value = json!(point.score);
            args.fails_invalid(&place(index, "score"), &value, "not in valid range [0, 10]");
        }
    }
}

/// The value of a shape at `used` per cent, 0 to 100: linear between two points, in integers.
fn on_shape(shape: &[ShapePoint], used: i64) -> i64 {
    let scale = MAX_NODE_SCORE / SHAPE_SCORE;
    let above = shape.iter().position(|point| used <= point.utilization);
    match above {
        Some(0) => shape[0].score * scale,
        Some(at) => {
            let (low, high) = (shape[at - 1], shape[at]);
            let (rise, run) = ((high.score - low.score) * scale, high.utilization - low.utilization);
            low.score * scale + rise * (used - low.utilization) / run
        }
        None => shape.last().map_or(0, |last| last.score * scale),
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

    #[test]
    fn a_shape_is_linear_between_its_points() {
        let shape = |points: &[(i64, i64)]| -> Vec<ShapePoint> {
            points
                .iter()
                .map(|(utilization, score)| ShapePoint { utilization: *utilization, score: *score })
                .collect()
        };
        let values = |points: &[(i64, i64)]| [0, 5, 10, 50, 70, 90, 100].map(|p| on_shape(&shape(points), p));
        assert_eq!(values(&[(0, 0), (100, 10)]), [0, 5, 10, 50, 70, 90, 100]);
        assert_eq!(values(&[(0, 10), (100, 0)]), [100, 95, 90, 50, 30, 10, 0]);
        assert_eq!(values(&[(10, 1), (70, 10), (90, 3)]), [10, 10, 10, 70, 100, 30, 30]);
    }
}

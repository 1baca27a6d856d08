//! [`Shape`]: a score as a function of the used share of something, linear between the points that a profile gives.

use crate::fields::Fields;
use crate::limits::MAX_NODE_SCORE;
use serde_json::{Value, json};

/// The largest score of a point.
const SHAPE_SCORE: i64 = 10;
/// The member of a list of points.
pub(super) const SHAPE: &str = "shape";

/// The points, by used share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape(Vec<ShapePoint>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShapePoint {
    /// The used share, in per cent.
    utilization: i64,
    /// The score there, 0 to 10.
    score: i64,
}

/// A rule that a shape breaks.
pub(super) struct ShapeFault {
    /// The path of the value from the object that has the shape.
    pub(super) path: String,
    /// The value; `None` if it is missing.
    pub(super) value: Option<i64>,
    /// The rule.
    pub(super) rule: &'static str,
}

impl Shape {
    /// The full score for what is not used, and none for what is full.
    pub(super) fn falling() -> Self {
        Self(vec![
            ShapePoint { utilization: 0, score: SHAPE_SCORE },
            ShapePoint { utilization: 100, score: 0 },
        ])
    }

    /// Reads the member `shape` of an object; `None` if it is absent.
    pub(super) fn read(object: &mut Fields<'_>) -> Option<Self> {
        object.objects(SHAPE, point).map(Self)
    }

    /// The member as it reads as this shape.
    pub(super) fn print(&self) -> Value {
        let point = |point: &ShapePoint| json!({ "utilization": point.utilization, "score": point.score });
        self.0.iter().map(point).collect()
    }

    /// The rules that the shape breaks.
    pub(super) fn faults(&self) -> Vec<ShapeFault> {
        if self.0.is_empty() {
            let rule = "at least one point must be specified";
            return vec![ShapeFault { path: SHAPE.to_owned(), value: None, rule }];
        }
        let fault = |index: usize, name: &str, value: i64, rule| {
            let path = format!("{SHAPE}[{index}].{name}");
            ShapeFault { path, value: Some(value), rule }
        };
        let mut faults = Vec::new();
        if let Some(at) = self.0.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization) {
            let rule = "values must be sorted in increasing order";
            faults.push(fault(at + 1, "utilization", self.0[at + 1].utilization, rule));
        }
        for (index, point) in self.0.iter().enumerate() {
            if !(0..=100).contains(&point.utilization) {
                faults.push(fault(index, "utilization", point.utilization, "not in valid range [0, 100]"));
            }
            if !(0..=SHAPE_SCORE).contains(&point.score) {
                faults.push(fault(index, "score", point.score, "not in valid range [0, 10]"));
            }
        }
        faults
    }

    /// The value at `used` per cent, 0 to 100: linear between two points, in integers.
    pub(super) fn at(&self, used: i64) -> i64 {
        let (shape, scale) = (&self.0, MAX_NODE_SCORE / SHAPE_SCORE);
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
}

fn point(item: &mut Fields<'_>) -> ShapePoint {
    let mut number = |name| item.integer(name).unwrap_or_default();
    ShapePoint { utilization: number("utilization"), score: number("score") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_linear_between_its_points() {
        let shape = |points: &[(i64, i64)]| {
            let point =
                |(utilization, score): &(i64, i64)| ShapePoint { utilization: *utilization, score: *score };
            Shape(points.iter().map(point).collect())
        };
        let values = |points: &[(i64, i64)]| [0, 5, 10, 50, 70, 90, 100].map(|used| shape(points).at(used));
        assert_eq!(values(&[(0, 0), (100, 10)]), [0, 5, 10, 50, 70, 90, 100]);
        assert_eq!(values(&[(0, 10), (100, 0)]), [100, 95, 90, 50, 30, 10, 0]);
        assert_eq!(values(&[(10, 1), (70, 10), (90, 3)]), [10, 10, 10, 70, 100, 30, 30]);
        assert_eq!(shape(&[(0, 10), (100, 0)]), Shape::falling());
    }
}

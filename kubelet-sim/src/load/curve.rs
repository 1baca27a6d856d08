//! [`Curve`]: requests a second over time. A function of the time alone, so that a load costs nothing until a client reads a usage.

use crate::behavior::duration;
use serde::Deserialize;
use std::f64::consts::TAU;
use std::time::Duration;

/// Seconds of a day.
const DAY: f64 = 86_400.0;

/// A curve as a ServiceLoad has it: one of its members.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct CurveDoc {
    pub(super) constant: Option<f64>,
    pub(super) points: Vec<PointDoc>,
    pub(super) interpolate: String,
    pub(super) repeat: Option<String>,
    pub(super) sine: Option<SineDoc>,
    pub(super) hours: Vec<f64>,
    pub(super) sum: Vec<CurveDoc>,
}

/// A point of a curve.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct PointDoc {
    pub(super) at: String,
    pub(super) rps: f64,
}

/// A wave.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SineDoc {
    pub(super) mean: f64,
    pub(super) amplitude: f64,
    pub(super) period: String,
    pub(super) peak: Option<String>,
}

/// A checked curve: the sum of its parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve(Vec<Part>);

/// A part of a curve.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Constant(f64),
    /// Points in the order of their times, which are seconds from the start. Before the first and after the last the curve is level.
    Points {
        points: Vec<(f64, f64)>,
        is_linear: bool,
        repeat: Option<f64>,
    },
    /// Mean, amplitude, period and the time of a peak in seconds.
    Sine {
        mean: f64,
        amplitude: f64,
        period: f64,
        peak: f64,
    },
    /// The load at each full hour of a day in UTC.
    Hours(Vec<f64>),
}

impl Curve {
    /// Checks a curve.
    ///
    /// # Errors
    /// The member that is wrong, with its path below `path`.
    pub(super) fn check(path: &str, doc: &CurveDoc) -> Result<Self, String> {
        if doc.sum.is_empty() {
            return Ok(Self(vec![Part::check(path, doc)?]));
        }
        if *doc != (CurveDoc { sum: doc.sum.clone(), ..CurveDoc::default() }) {
            return Err(format!("{path}: {ONE_OF}"));
        }
        let part = |(index, doc)| Part::check(&format!("{path}.sum[{index}]"), doc);
        Ok(Self(doc.sum.iter().enumerate().map(part).collect::<Result<_, _>>()?))
    }

    /// Requests a second, at least zero, `elapsed` after the start of the load. `day` is the time since midnight in UTC.
    pub(super) fn at(&self, elapsed: Duration, day: Duration) -> f64 {
        let (elapsed, day) = (elapsed.as_secs_f64(), day.as_secs_f64());
        self.0.iter().map(|part| part.at(elapsed, day)).sum::<f64>().max(0.0)
    }
}

/// What a curve must have.
const ONE_OF: &str = "give one of constant, points, sine, hours and sum";

impl Part {
    fn check(path: &str, doc: &CurveDoc) -> Result<Self, String> {
        let CurveDoc { constant, points, interpolate, repeat, sine, hours, sum } = doc;
        if !sum.is_empty() {
            return Err(format!("{path}.sum: a sum has no sums"));
        }
        let given = [constant.is_some(), !points.is_empty(), sine.is_some(), !hours.is_empty()];
        if given.iter().filter(|is_given| **is_given).count() != 1 {
            return Err(format!("{path}: {ONE_OF}"));
        }
        if points.is_empty() && (repeat.is_some() || !interpolate.is_empty()) {
            return Err(format!("{path}: interpolate and repeat are members of a curve of points"));
        }
        if let Some(sine) = sine {
            return wave(path, sine);
        }
        if let Some(constant) = constant {
            return Ok(Self::Constant(*constant));
        }
        match hours.len() {
            0 => line(path, doc),
            24 => Ok(Self::Hours(hours.clone())),
            count => Err(format!("{path}.hours: {count} numbers; a day has 24")),
        }
    }

    fn at(&self, elapsed: f64, day: f64) -> f64 {
        match self {
            Self::Constant(rps) => *rps,
            Self::Points { points, is_linear, repeat } => {
                let at = repeat.map_or(elapsed, |repeat| elapsed % repeat);
                let next = points.iter().position(|(time, _)| *time > at).unwrap_or(points.len());
                match (next.checked_sub(1).map(|before| points[before]), points.get(next)) {
                    (Some((from, low)), Some((to, high))) if *is_linear => {
                        low + (high - low) * (at - from) / (to - from)
                    }
                    (Some((_, rps)), _) => rps,
                    (None, first) => first.map_or(0.0, |(_, rps)| *rps),
                }
            }
            Self::Sine { mean, amplitude, period, peak } => {
                mean + amplitude * (TAU * (elapsed - peak) / period).cos()
            }
            Self::Hours(hours) => {
                let hour = (day / DAY * 24.0).clamp(0.0, 23.999_999);
                let (before, share) = (hour as usize, hour.fract());
                hours[before] + (hours[(before + 1) % 24] - hours[before]) * share
            }
        }
    }
}

fn wave(path: &str, doc: &SineDoc) -> Result<Part, String> {
    let period = seconds(&format!("{path}.sine.period"), &doc.period)?;
    if period <= 0.0 {
        return Err(format!("{path}.sine.period: must be above zero"));
    }
    let peak = doc.peak.as_deref().map(|peak| seconds(&format!("{path}.sine.peak"), peak)).transpose()?;
    let peak = peak.unwrap_or(period / 4.0);
    Ok(Part::Sine { mean: doc.mean, amplitude: doc.amplitude, period, peak })
}

fn line(path: &str, doc: &CurveDoc) -> Result<Part, String> {
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(doc.points.len());
    for (index, point) in doc.points.iter().enumerate() {
        let at = seconds(&format!("{path}.points[{index}].at"), &point.at)?;
        if points.last().is_some_and(|(before, _)| *before >= at) {
            return Err(format!("{path}.points[{index}].at: must be later than the point before"));
        }
        points.push((at, point.rps));
    }
    let is_linear = match doc.interpolate.as_str() {
        "" | "linear" => true,
        "step" => false,
        other => return Err(format!("{path}.interpolate {other:?}: must be linear or step")),
    };
    let repeat = doc.repeat.as_deref().map(|text| seconds(&format!("{path}.repeat"), text)).transpose()?;
    if repeat.is_some_and(|repeat| repeat <= 0.0) {
        return Err(format!("{path}.repeat: must be above zero"));
    }
    Ok(Part::Points { points, is_linear, repeat })
}

fn seconds(path: &str, text: &str) -> Result<f64, String> {
    let parsed = duration(text).map_err(|expected| format!("{path} {text:?} is not {expected}"));
    parsed.map(|span| span.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::lenient;
    use serde_json::{Value, json};

    fn curve(doc: Value) -> Result<Curve, String> {
        let doc: CurveDoc = lenient::from_value(&doc).unwrap();
        Curve::check("spec.curve", &doc)
    }

    /// The curve at these hours after the start, which is a midnight.
    fn at_hours(doc: Value, hours: &[f64]) -> Vec<f64> {
        let curve = curve(doc).unwrap();
        let at = |hour: &f64| {
            let span = Duration::from_secs_f64(hour * 3600.0);
            (curve.at(span, Duration::from_secs_f64(hour * 3600.0 % DAY)) * 1000.0).round() / 1000.0
        };
        hours.iter().map(at).collect()
    }

    #[test]
    fn curves_have_the_values_of_their_points_and_what_is_between() {
        assert_eq!(at_hours(json!({"constant": 7}), &[0.0, 30.0]), [7.0, 7.0]);
        let points = json!([{"at": "1h", "rps": 10}, {"at": "3h", "rps": 30}]);
        assert_eq!(
            at_hours(json!({"points": points}), &[0.0, 1.0, 2.0, 3.0, 9.0]),
            [10.0, 10.0, 20.0, 30.0, 30.0]
        );
        let steps = json!({"points": points, "interpolate": "step", "repeat": "4h"});
        assert_eq!(at_hours(steps, &[0.5, 2.9, 3.0, 4.5, 7.5]), [10.0, 10.0, 30.0, 10.0, 30.0]);
        let sine = json!({"sine": {"mean": 500, "amplitude": 400, "period": "24h", "peak": "14h"}});
        assert_eq!(at_hours(sine, &[14.0, 2.0, 8.0, 38.0]), [900.0, 100.0, 500.0, 900.0]);
        let hours: Vec<u32> = (0..24).collect();
        assert_eq!(at_hours(json!({"hours": hours}), &[0.0, 5.5, 23.5, 29.0]), [0.0, 5.5, 11.5, 5.0]);
        let sum = json!({"sum": [{"constant": 5}, {"sine": {"mean": 0, "amplitude": 10, "period": "4h", "peak": "0s"}}]});
        assert_eq!(at_hours(sum, &[0.0, 2.0]), [15.0, 0.0], "a load is never negative");
    }

    #[test]
    fn wrong_curves_are_named_by_path() {
        for (doc, expected) in [
            (json!({}), "spec.curve: give one of constant, points, sine, hours and sum"),
            (json!({"constant": 1, "hours": [1]}), "spec.curve: give one of"),
            (json!({"hours": [1]}), "spec.curve.hours: 1 numbers; a day has 24"),
            (json!({"points": [{"at": "2h"}, {"at": "1h"}]}), "spec.curve.points[1].at: must be later"),
            (
                json!({"sum": [{"sine": {"period": "soon"}}]}),
                "spec.curve.sum[0].sine.period \"soon\" is not a delay",
            ),
            (json!({"constant": 1, "repeat": "1h"}), "members of a curve of points"),
        ] {
            let problem = curve(doc).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}

//! The spec of a ServiceLoad: as the API has it ([`LoadDoc`]), and checked ([`LoadSpec`]).

use super::curve::{Curve, CurveDoc};
use crate::behavior::duration;
use crate::image::hash;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::quantity::Quantity as Amount;
use kstore_container_sim::time::between;
use serde::Deserialize;
use std::time::Duration;

/// `spec` of a ServiceLoad.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LoadDoc {
    service: String,
    curve: CurveDoc,
    noise: Option<NoiseDoc>,
    per_request: CostDoc,
    idle: CostDoc,
    start: String,
}

/// Random differences from the curve.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct NoiseDoc {
    percent: f64,
    every: Option<String>,
}

/// Processor and memory.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct CostDoc {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
}

/// From when the times of a curve count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Creation,
    Midnight,
    At(Timestamp),
}

/// A checked spec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadSpec {
    /// The name of the Service.
    pub(crate) service: String,
    curve: Curve,
    /// The greatest difference as a share of the curve, and how long a difference holds.
    noise: Option<(f64, Duration)>,
    start: Start,
    /// What a request a second takes: billionths of a processor, and bytes.
    pub(crate) per_request: (f64, f64),
    /// What a pod uses without requests, if it is given.
    pub(crate) idle: (Option<u64>, Option<u64>),
}

impl LoadSpec {
    /// Checks a spec.
    ///
    /// # Errors
    /// The first member that is wrong, with its path.
    pub(crate) fn check(doc: &LoadDoc) -> Result<Self, String> {
        if doc.service.is_empty() {
            return Err("spec.service: must be the name of a Service".to_owned());
        }
        let start = match doc.start.as_str() {
            "" | "creation" => Start::Creation,
            "midnight" => Start::Midnight,
            text => Start::At(text.parse().map_err(|_| {
                format!(
                    "spec.start {text:?}: must be creation, midnight or a time such as 2026-01-01T00:00:00Z"
                )
            })?),
        };
        let noise = doc.noise.as_ref().map(noise).transpose()?;
        let [cpu, memory] = amounts("spec.perRequest", &doc.per_request)?;
        let idle = amounts("spec.idle", &doc.idle)?;
        let whole = |amount: f64| amount.round() as u64;
        Ok(Self {
            service: doc.service.clone(),
            curve: Curve::check("spec.curve", &doc.curve)?,
            noise,
            start,
            per_request: (cpu.unwrap_or(0.0), memory.unwrap_or(0.0)),
            idle: (idle[0].map(whole), idle[1].map(whole)),
        })
    }

    /// Requests a second at `now` of the load that was created at `created`; `seed` decides its noise.
    pub(crate) fn requests(&self, created: Timestamp, now: Timestamp, seed: &str) -> f64 {
        let midnight = u64::try_from(now.as_second().rem_euclid(86_400)).unwrap_or(0);
        let day = Duration::from_secs(midnight);
        let elapsed = match self.start {
            Start::Creation => between(created, now),
            Start::Midnight => day,
            Start::At(start) => between(start, now),
        };
        let rps = self.curve.at(elapsed, day);
        let Some((share, every)) = self.noise else { return rps };
        let step = elapsed.as_nanos() / every.as_nanos().max(1);
        let drawn = hash(0, &[seed, &step.to_string()]) as f64 / u64::MAX as f64;
        rps * (1.0 + share * (2.0 * drawn - 1.0))
    }
}

fn noise(doc: &NoiseDoc) -> Result<(f64, Duration), String> {
    let every = doc.every.as_deref().unwrap_or("30s");
    let every =
        duration(every).map_err(|expected| format!("spec.noise.every {every:?} is not {expected}"))?;
    if every < Duration::from_secs(1) {
        return Err("spec.noise.every: must be at least a second".to_owned());
    }
    if !(0.0..=100.0).contains(&doc.percent) {
        return Err(format!("spec.noise.percent {}: must be between 0 and 100", doc.percent));
    }
    Ok((doc.percent / 100.0, every))
}

/// Billionths of a processor, and bytes.
fn amounts(path: &str, doc: &CostDoc) -> Result<[Option<f64>; 2], String> {
    let of = |member: &str, amount: &Option<Quantity>, unit: f64| {
        let Some(Quantity(text)) = amount else { return Ok(None) };
        match Amount::parse(text).ok().filter(|amount| !amount.is_negative()) {
            Some(amount) => Ok(Some(amount.as_f64() * unit)),
            None => Err(format!("{path}.{member} {text:?}: must be an amount such as 2m or 64Ki")),
        }
    };
    Ok([of("cpu", &doc.cpu, 1e9)?, of("memory", &doc.memory, 1.0)?])
}

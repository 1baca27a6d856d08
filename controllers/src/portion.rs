//! Absolute or percentage values. Pure arithmetic.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Rounding of a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// The absolute number, or the percentage of `of`. Invalid text counts as zero; validation refuses it.
pub(crate) fn portion(value: &IntOrString, of: i32, round: Round) -> i32 {
    match value {
        IntOrString::Int(n) => (*n).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.strip_suffix('%').and_then(|n| n.parse().ok()).unwrap_or(0).max(0);
            let product = percent.saturating_mul(i64::from(of));
            let share = match round {
                Round::Up => product.saturating_add(99) / 100,
                Round::Down => product / 100,
            };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

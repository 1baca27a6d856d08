//! Numbers that may be given as a percentage of another number. Pure arithmetic.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// What becomes of a part of a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Up,
    Down,
}

/// A number, or a percentage of `of`. Text that is neither counts as zero; validation refuses it long before.
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

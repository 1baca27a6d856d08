//! Resource quantities (`500m`, `1.5Gi`, `2e3`): parsing, canonical form, arithmetic.
//!
//! A quantity is a number of nano-units and the suffix family of its text. Finer values are rounded away from
//! zero, binary amounts beyond ±(2^63-1) units are clamped, and decimal ones beyond some 10^28. Comparison is by value:
//! `1000m == 1`.

mod parse;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

/// Nano-units in one unit.
const NANO: i128 = 1_000_000_000;
/// Nano-units in a thousandth.
const MILLI: i128 = 1_000_000;
/// Largest magnitude, in nano-units: sums of two cannot overflow. Kubernetes has no bound for decimal amounts; texts beyond
/// this one are kept exactly by [`canonicalize`].
const MAX: i128 = i128::MAX / 4;
/// Largest magnitude of a binary amount, in nano-units.
const BINARY_MAX: i128 = i64::MAX as i128 * NANO;

/// Suffix family in which a quantity is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `n u m k M G T P E`.
    DecimalSi,
    /// `Ki Mi Gi Ti Pi Ei`.
    BinarySi,
    /// `e3`, `e-6`.
    DecimalExponent,
}

/// Error of parsing a quantity. The messages are those of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number followed by a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix does not exist.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The number has no digits, or two decimal points.
    #[error("unable to parse numeric part of quantity")]
    Number,
}

/// Exact amount with the suffix family in which it is printed.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

impl Quantity {
    /// The zero quantity.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Parses a quantity.
    ///
    /// # Errors
    /// The text is not a quantity; the message is that of Kubernetes.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// `units` whole units, printed in `format`.
    #[must_use]
    pub fn from_units(units: i64, format: Format) -> Self {
        Self::new(i128::from(units) * NANO, format)
    }

    /// `milli` thousandths, printed with decimal suffixes.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self::new(i128::from(milli) * MILLI, Format::DecimalSi)
    }

    fn new(nanos: i128, format: Format) -> Self {
        Self { nanos: nanos.clamp(-MAX, MAX), format }
    }

    /// Suffix family.
    #[must_use]
    pub fn format(self) -> Format {
        self.format
    }

    /// Whole units, rounded away from zero and clamped to `i64`.
    #[must_use]
    pub fn units(self) -> i64 {
        clamp_i64(div_away(self.nanos, NANO))
    }

    /// Thousandths of a unit, rounded away from zero and clamped to `i64`.
    #[must_use]
    pub fn milli(self) -> i64 {
        clamp_i64(div_away(self.nanos, MILLI))
    }

    /// The quantity rounded away from zero to thousandths, the precision of resource amounts in Kubernetes.
    #[must_use]
    pub fn in_milli(self) -> Self {
        Self::new(div_away(self.nanos, MILLI) * MILLI, self.format)
    }

    /// The quantity rounded away from zero to whole units.
    #[must_use]
    pub fn in_units(self) -> Self {
        Self::new(div_away(self.nanos, NANO) * NANO, self.format)
    }

    /// Value as a float, for ratios and scores.
    #[must_use]
    // The precision of a double suffices for ratios.
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Whether the quantity is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether the quantity is negative.
    #[must_use]
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Sum; keeps this quantity's suffix family unless this one is zero.
    #[must_use]
    #[expect(
        clippy::should_implement_trait,
        reason = "it saturates, and takes the format of one side: not what `+` promises"
    )]
    pub fn add(self, other: Self) -> Self {
        Self::new(self.nanos + other.nanos, self.family(other))
    }

    /// Difference; keeps this quantity's suffix family unless this one is zero.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "as for `add`")]
    pub fn sub(self, other: Self) -> Self {
        Self::new(self.nanos - other.nanos, self.family(other))
    }

    fn family(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

/// The text in which Kubernetes writes a parsed quantity: mostly with the largest suffix of its family that leaves a whole
/// number. A text whose last digit stands for a power of thousand is kept as it was sent, as in Kubernetes: `999.999`, `1E6`.
///
/// # Errors
/// The text is not a quantity.
pub fn canonicalize(text: &str) -> Result<String, QuantityError> {
    parse::written(text)
}

/// The text of [`canonicalize`] for an amount of a resource, rounded away from zero to thousandths.
///
/// # Errors
/// The text is not a quantity.
pub fn canonicalize_amount(text: &str) -> Result<String, QuantityError> {
    parse::written_amount(text)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        // Below 1024 units no binary suffix applies, and fractions are printed as decimals.
        let is_binary =
            self.format == Format::BinarySi && self.nanos.abs() >= 1024 * NANO && self.nanos % NANO == 0;
        if is_binary {
            return fmt_binary(self.nanos / NANO, f);
        }
        let (mantissa, power) = decimal(self.nanos);
        f.write_str(&decimal_text(mantissa, power, self.format))
    }
}

/// Splits nano-units into a mantissa and a power of ten, a multiple of three.
fn decimal(mut mantissa: i128) -> (i128, i64) {
    let mut power = -9;
    while mantissa % 1000 == 0 {
        mantissa /= 1000;
        power += 3;
    }
    (mantissa, power)
}

/// A mantissa with the suffix for a power of ten, a multiple of three. Powers without a suffix are printed as exponents.
fn decimal_text(mantissa: impl fmt::Display, power: i64, format: Format) -> String {
    const SUFFIX: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let suffix = usize::try_from(power / 3 + 3).ok().and_then(|at| SUFFIX.get(at));
    match (format, suffix) {
        (_, _) if power == 0 => mantissa.to_string(),
        (Format::DecimalSi | Format::BinarySi, Some(suffix)) => format!("{mantissa}{suffix}"),
        (Format::DecimalSi | Format::BinarySi, None) | (Format::DecimalExponent, _) => {
            format!("{mantissa}e{power}")
        }
    }
}

fn fmt_binary(mut units: i128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SUFFIX: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut at = 0;
    while units % 1024 == 0 && at < SUFFIX.len() - 1 {
        units /= 1024;
        at += 1;
    }
    write!(f, "{units}{}", SUFFIX[at])
}

/// Divides and rounds away from zero, like Kubernetes, so that a tiny request never becomes zero.
fn div_away(value: i128, by: i128) -> i128 {
    let whole = value / by;
    if value % by == 0 { whole } else { whole + value.signum() }
}

fn clamp_i64(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

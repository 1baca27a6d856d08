//! Parser of quantities. It never overflows: amounts are clamped to the largest quantity.

use super::{Format, MAX, NANO, Quantity, QuantityError};

/// Significant digits kept exactly; their product with the largest binary suffix fits into 128 bits.
const DIGITS: usize = 19;

/// Factor of a suffix.
enum Scale {
    /// Ten to this power.
    Ten(i64),
    /// Two to this power.
    Two(u32),
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let (number, suffix) = split(unsigned)?;
    let (scale, format) = scale(suffix)?;
    let nanos = amount(number, &scale)?;
    // A binary fraction of one unit has no binary suffix.
    let format =
        if format == Format::BinarySi && nanos > 0 && nanos < NANO { Format::DecimalSi } else { format };
    Ok(Quantity::new(if negative { -nanos } else { nanos }, format))
}

/// Splits number and suffix, and checks the form of both.
fn split(text: &str) -> Result<(&str, &str), QuantityError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    if !rest.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok((number, suffix))
}

fn scale(suffix: &str) -> Result<(Scale, Format), QuantityError> {
    let ten = |power| Ok((Scale::Ten(power), Format::DecimalSi));
    let two = |power| Ok((Scale::Two(power), Format::BinarySi));
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        other => {
            let digits = other.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
            let power: i32 = digits.parse().map_err(|_| QuantityError::Suffix)?;
            Ok((Scale::Ten(i64::from(power)), Format::DecimalExponent))
        }
    }
}

/// The unsigned amount in nano-units, rounded up and clamped.
fn amount(number: &str, scale: &Scale) -> Result<i128, QuantityError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return Err(QuantityError::Number);
    }
    let digits: String = whole.chars().chain(fraction.chars()).collect();
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let mut power = 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    if let Scale::Ten(by) = scale {
        power = power.saturating_add(*by);
    }
    let (mut mantissa, cut) = leading(significant);
    power = power.saturating_add(cut);
    if let Scale::Two(by) = scale {
        mantissa <<= by;
    }
    Ok(scaled(mantissa, power).min(MAX))
}

/// The leading digits as a number, rounded up, and the number of dropped digits.
fn leading(digits: &str) -> (i128, i64) {
    let (kept, rest) = digits.split_at(digits.len().min(DIGITS));
    let number = kept.bytes().fold(0_i128, |sum, b| sum * 10 + i128::from(b - b'0'));
    let up = i128::from(rest.bytes().any(|b| b != b'0'));
    (number + up, i64::try_from(rest.len()).unwrap_or(i64::MAX))
}

/// Computes `mantissa * 10^power` for a positive mantissa, rounded up and saturating.
fn scaled(mantissa: i128, power: i64) -> i128 {
    let factor = u32::try_from(power.unsigned_abs()).ok().and_then(|p| 10_i128.checked_pow(p));
    match (power >= 0, factor) {
        (true, Some(factor)) => mantissa.saturating_mul(factor),
        (true, None) => i128::MAX,
        (false, Some(factor)) => (mantissa - 1) / factor + 1,
        (false, None) => 1,
    }
}

//! Parser of quantities, with the rules of `ParseQuantity` in k8s.io/apimachinery. It never overflows: amounts are clamped to
//! the largest quantity.

use super::{BINARY_MAX, Format, MAX, MILLI, NANO, Quantity, QuantityError, decimal_text};

/// Significant digits kept exactly; they fit into 128 bits.
const DIGITS: usize = 38;
/// Significant digits kept exactly of a binary amount; their product with the largest binary suffix fits into 128 bits.
const BINARY_DIGITS: usize = 19;
/// Digits of a decimal amount that Kubernetes keeps in 64 bits.
const SHORT_DIGITS: usize = 18;
/// Power of ten of the finest amount.
const NANO_POWER: i64 = -9;
/// Power of ten of a thousandth.
const MILLI_POWER: i64 = -3;

/// Factor of a suffix.
#[derive(Clone, Copy)]
enum Scale {
    /// Ten to this power.
    Ten(i64),
    /// Two to this power.
    Two(u32),
}

/// A parsed text, in parts.
struct Parts<'t> {
    text: &'t str,
    is_negative: bool,
    /// Digits before the point without leading zeros, at least one.
    whole: &'t str,
    /// Digits behind the point.
    fraction: &'t str,
    /// Whether the text has digits at all.
    has_digits: bool,
    scale: Scale,
    format: Format,
}

pub(super) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    Parts::of(text)?.quantity()
}

/// The text in which Kubernetes writes a parsed quantity.
pub(super) fn written(text: &str) -> Result<String, QuantityError> {
    let parts = Parts::of(text)?;
    let quantity = parts.quantity()?;
    if parts.keeps_text() {
        return Ok(text.to_owned());
    }
    Ok(parts.large().unwrap_or_else(|| quantity.to_string()))
}

/// The text in which Kubernetes writes a parsed amount of a resource, which it rounds to thousandths.
pub(super) fn written_amount(text: &str) -> Result<String, QuantityError> {
    let parts = Parts::of(text)?;
    let quantity = parts.quantity()?;
    if parts.is_whole_in_milli() && parts.keeps_text() {
        return Ok(text.to_owned());
    }
    let is_rounded = quantity.nanos % MILLI != 0;
    let large = if is_rounded { None } else { parts.large() };
    Ok(large.unwrap_or_else(|| quantity.in_milli().to_string()))
}

impl<'t> Parts<'t> {
    /// Splits a text, as `parseQuantityString` does.
    fn of(text: &'t str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let (whole, rest) = digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), digits);
        let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let has_digits = !(whole.is_empty() && fraction.is_empty());
        let whole = whole.trim_start_matches('0');
        let (scale, format) = scale(suffix)?;
        Ok(Self {
            text,
            is_negative: text.starts_with('-'),
            whole: if whole.is_empty() { "0" } else { whole },
            fraction,
            has_digits,
            scale,
            format,
        })
    }

    fn quantity(&self) -> Result<Quantity, QuantityError> {
        if !self.has_digits && !self.is_short() {
            return Err(QuantityError::Number);
        }
        let nanos = amount(self.whole, self.fraction, self.scale);
        let most = if self.format == Format::BinarySi { BINARY_MAX } else { MAX };
        let nanos = nanos.min(most);
        // A binary fraction of one unit has no binary suffix.
        let is_below_one = self.format == Format::BinarySi && nanos > 0 && nanos < NANO;
        let format = if is_below_one { Format::DecimalSi } else { self.format };
        Ok(Quantity::new(if self.is_negative { -nanos } else { nanos }, format))
    }

    /// Number of digits.
    fn length(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// Power of ten of the last digit of a decimal amount.
    fn power(&self) -> Option<i64> {
        let Scale::Ten(power) = self.scale else { return None };
        Some(power.saturating_sub(i64::try_from(self.fraction.len()).unwrap_or(i64::MAX)))
    }

    /// Whether Kubernetes keeps the amount in 64 bits.
    fn is_short(&self) -> bool {
        match self.scale {
            Scale::Ten(_) => self.length() <= SHORT_DIGITS && self.power().is_some_and(|p| p >= NANO_POWER),
            Scale::Two(bits) => {
                // Three digits for ten bits, as Kubernetes estimates it.
                let digits = usize::try_from(bits * 3 / 10).unwrap_or(usize::MAX);
                let fits = self.whole.len().saturating_add(digits) < 15;
                let product =
                    || self.whole.parse().ok().and_then(|n: i64| n.checked_mul(1_i64.checked_shl(bits)?));
                self.fraction.is_empty() && fits && product().is_some()
            }
        }
    }

    /// Whether Kubernetes takes the text for canonical and writes it as it was sent: its test is quick, and takes `1E6`,
    /// `+1`, `00012` and `999.999` as well.
    fn keeps_text(&self) -> bool {
        if self.text == "0" {
            return true;
        }
        if !self.is_short() {
            return false;
        }
        let Some(power) = self.power() else {
            return self.whole.bytes().last().is_some()
                && self.whole.parse::<u64>().is_ok_and(|n| n & 7 != 0);
        };
        let (first, last) = (self.whole.as_bytes()[0], format!("{}{}", self.whole, self.fraction));
        power % 3 == 0 && first != b'0' && !last.ends_with("000")
    }

    /// Whether the amount has no fraction of a thousandth by its form; only then a text is kept.
    fn is_whole_in_milli(&self) -> bool {
        self.power().is_none_or(|power| power >= MILLI_POWER)
    }

    /// Canonical text of a decimal amount beyond the range of [`Quantity`].
    fn large(&self) -> Option<String> {
        let power = self.power().filter(|power| *power >= NANO_POWER)?;
        if amount(self.whole, self.fraction, self.scale) < MAX {
            return None;
        }
        let digits = format!("{}{}", self.whole, self.fraction);
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        let mut power = power.checked_add(i64::try_from(digits.len() - kept.len()).ok()?)?;
        let mut mantissa = kept.to_owned();
        while power % 3 != 0 {
            mantissa.push('0');
            power -= 1;
        }
        let sign = if self.is_negative { "-" } else { "" };
        Some(decimal_text(format_args!("{sign}{mantissa}"), power, self.format))
    }
}

/// Splits a text behind its leading digits.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
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
fn amount(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return 0;
    }
    let mut power = 9 - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let kept = match scale {
        Scale::Ten(by) => {
            power = power.saturating_add(by);
            DIGITS
        }
        Scale::Two(_) => BINARY_DIGITS,
    };
    let (mut mantissa, cut) = leading(significant, kept);
    power = power.saturating_add(cut);
    if let Scale::Two(by) = scale {
        mantissa <<= by;
    }
    scaled(mantissa, power).min(MAX)
}

/// The leading digits as a number, rounded up, and the number of dropped digits.
fn leading(digits: &str, kept: usize) -> (i128, i64) {
    let (kept, rest) = digits.split_at(digits.len().min(kept));
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

//! Values of awk: numbers, texts, and texts of the input that look like numbers.

/// A value.
#[derive(Clone, Debug, Default)]
pub(super) enum Value {
    #[default]
    Unset,
    Number(f64),
    Text(String),
    /// A text of the input.
    Input(String),
}

/// The number with which a text begins.
pub(super) fn leading_number(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(text.starts_with(['-', '+']));
    let whole = digits(at);
    at += whole;
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return 0.0;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent > 0 {
            at += 1 + sign + exponent;
        }
    }
    text[..at].trim_start_matches('+').parse().unwrap_or(0.0)
}

fn is_numeric(text: &str) -> bool {
    let text = text.trim();
    let digits = text.trim_start_matches(['-', '+']);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.trim_start_matches('+').parse::<f64>().is_ok()
}

impl Value {
    pub(super) fn number(&self) -> f64 {
        match self {
            Self::Unset => 0.0,
            Self::Number(number) => *number,
            Self::Text(text) | Self::Input(text) => leading_number(text),
        }
    }

    /// The text; of a number that is not whole by `format`, `%.6g` at first.
    pub(super) fn text(&self, format: &dyn Fn(f64) -> String) -> String {
        match self {
            Self::Unset => String::new(),
            // Zero has no sign.
            Self::Number(0.0) => "0".to_owned(),
            Self::Number(number) if *number == number.trunc() && number.abs() < 1e16 => {
                format!("{number:.0}")
            }
            Self::Number(number) => format(*number),
            Self::Text(text) | Self::Input(text) => text.clone(),
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Unset => false,
            Self::Number(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Input(text) if is_numeric(text) => leading_number(text) != 0.0,
            Self::Input(text) => !text.is_empty(),
        }
    }

    /// Whether it is compared as a number.
    pub(super) fn is_number(&self) -> bool {
        match self {
            Self::Unset | Self::Number(_) => true,
            Self::Text(_) => false,
            Self::Input(text) => is_numeric(text),
        }
    }

    pub(super) fn length(&self) -> usize {
        match self {
            Self::Unset | Self::Number(_) => 8,
            Self::Text(text) | Self::Input(text) => text.len(),
        }
    }
}

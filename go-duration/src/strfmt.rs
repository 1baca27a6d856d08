//! `strfmt.ParseDuration`, which reads the format `duration` of OpenAPI.

/// Parses a text of the format `duration`, as `strfmt.ParseDuration` of Kubernetes' OpenAPI library does: a duration of Go, or amounts of
/// units such as `3 days` or `1h 30m`, which are added. Text between the amounts is skipped. None if no amount has a known unit.
pub fn parse_format(text: &str) -> Option<i64> {
    if let Ok(nanos) = crate::parse(text) {
        return Some(nanos);
    }
    let (mut total, mut is_known, mut rest) = (0_i64, false, text);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let from = &rest[at..];
        let (amount, after) = from.split_at(from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len()));
        let after = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '\u{b5}';
        let (word, after) = after.split_at(after.find(|c: char| !is_letter(c)).unwrap_or(after.len()));
        rest = after;
        if word.is_empty() {
            continue;
        }
        let amount: i64 = amount.parse().ok()?;
        if let Some(unit) = worded_unit(&word.to_lowercase()) {
            is_known = true;
            // Go's multiplication and addition wrap.
            total = total.wrapping_add(amount.wrapping_mul(unit));
        }
    }
    is_known.then_some(total)
}

/// Nanoseconds of a unit in words. The last spelling of a unit also matches longer ones.
fn worded_unit(word: &str) -> Option<i64> {
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "\u{b5}s", "\u{3bc}s"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", 1_000_000_000),
        (&["m"], "min", 60_000_000_000),
        (&["h", "hr"], "hour", 3_600_000_000_000),
        (&["d"], "day", 86_400_000_000_000),
        (&["w", "wk"], "week", 604_800_000_000_000),
    ];
    let found = UNITS.iter().find(|(short, long, _)| short.contains(&word) || word.starts_with(long));
    found.map(|(.., nanos)| *nanos)
}

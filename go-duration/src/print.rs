//! `Duration.String`.

/// Nanoseconds of the units that a printed duration has.
const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Formats nanoseconds as Go prints a duration: `1h30m0s`, `1.5s`, `250ms`, `0s`. A duration below a second has the largest unit that
/// makes its number at least one.
pub fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let below_a_second = |unit: u64, name: &str| format!("{sign}{}{name}", with_fraction(nanos, unit));
    match nanos {
        0 => "0s".to_owned(),
        1..MICROSECOND => below_a_second(1, "ns"),
        MICROSECOND..MILLISECOND => below_a_second(MICROSECOND, "\u{b5}s"),
        MILLISECOND..SECOND => below_a_second(MILLISECOND, "ms"),
        SECOND.. => {
            let (minutes, rest) = (nanos / (60 * SECOND), nanos % (60 * SECOND));
            let seconds = with_fraction(rest, SECOND);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// `nanos` in units of `unit`, a power of ten, as a decimal without trailing zeros.
fn with_fraction(nanos: u64, unit: u64) -> String {
    let (whole, fraction) = (nanos / unit, nanos % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

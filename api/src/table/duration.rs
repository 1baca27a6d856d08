//! Human-readable durations: two or three significant figures, as kubectl prints ages.
//!
//! Follows `HumanDuration`.

use crate::meta;
use jiff::Timestamp;

/// Human-readable duration `now - time`; `<unknown>` if there is no time.
pub fn since(time: &str, now: Timestamp) -> String {
    match meta::parse_time(time) {
        Some(time) => human_duration(now.duration_since(time).as_secs()),
        None => "<unknown>".to_owned(),
    }
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Human-readable duration: `5s`, `2m3s`, `4h5m`, `3d2h`, `45d`, `2y10d`. A duration of minus one second
/// counts as zero, for clocks that differ slightly.
pub fn human_duration(seconds: i64) -> String {
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        let (n, rest) = (seconds / big, seconds % big / small);
        if rest == 0 { format!("{n}{big_unit}") } else { format!("{n}{big_unit}{rest}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(MINUTE, "m", 1, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(HOUR, "h", MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(DAY, "d", HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(YEAR, "y", DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_figures() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (4 * HOUR + 5 * MINUTE, "4h5m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (2 * DAY, "2d"),
            (3 * DAY + 2 * HOUR, "3d2h"),
            (45 * DAY, "45d"),
            (2 * YEAR + 10 * DAY, "2y10d"),
            (2 * YEAR, "2y"),
            (9 * YEAR + 10 * DAY, "9y"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}

//! Revision expressions: the words by which people name a state of the cluster, such as `263`, `5m`, `now~2` or `#244..#313`. Parses only;
//! the server knows which revision a time is. Pure.

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::Offset;
use std::time::Duration;

/// Bytes of the longest expression.
pub const EXPRESSION_BYTES: usize = 200;
/// Most outside writes that `X~N` goes back.
const STEPS: u32 = 100_000;
/// A day of a zone, which is an offset from UTC and has no daylight saving time.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A state of the cluster, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionExpression {
    /// The named state.
    pub moment: Moment,
    /// Number of outside writes before it: `X~2` is 2.
    pub back: u32,
}

/// What an expression begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// `1234` or `#1234`: this revision.
    Revision(i64),
    /// `now`: the newest revision.
    Now,
    /// `oldest`: the oldest revision that is retained.
    Oldest,
    /// `5m`: the state that long ago.
    Ago(Duration),
    /// `2026-11-27T23:38:56Z`: the state at this time.
    At(Timestamp),
    /// `2026-11-27T23:38:56`: the state at this time in the zone of the person.
    Local(DateTime),
    /// `23:38:56`: the state at the newest such time of day that is past, in the zone of the person.
    TimeOfDay(Time),
    /// Another word, which can only be a tag.
    Tag(String),
}

/// Changes after one state up to another: `A..B`, `A..`, `..B`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionRange {
    /// The state after which changes count; `None`: the oldest retained one.
    pub after: Option<RevisionExpression>,
    /// The state up to which changes count; `None`: the newest one.
    pub upto: Option<RevisionExpression>,
}

/// Why a text is no expression. The message says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The text is empty, too long, or has characters that no expression has.
    #[error(
        "{0:?} is no revision: write a number such as 244, `now`, `oldest`, a duration such as 5m, or a time such as 23:38:56"
    )]
    Form(String),
    /// The number is not a revision.
    #[error("{0:?} is no revision: revisions are numbers from 1 on")]
    Number(String),
    /// The number after `~` cannot be used.
    #[error("{0:?} is no revision: a number from 0 to 100000 follows the ~")]
    Back(String),
}

impl RevisionExpression {
    /// Parses an expression.
    ///
    /// # Errors
    /// The text has none of the forms.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let shown = || text.chars().take(EXPRESSION_BYTES).collect::<String>();
        if text.is_empty() || text.len() > EXPRESSION_BYTES || text.contains("..") {
            return Err(ExpressionError::Form(shown()));
        }
        let (moment, back) = match text.split_once('~') {
            None => (text, 0),
            Some((moment, "")) => (moment, 1),
            Some((moment, steps)) => {
                let steps = digits(steps).and_then(|steps| u32::try_from(steps).ok());
                let steps = steps.filter(|steps| *steps <= STEPS);
                (moment, steps.ok_or_else(|| ExpressionError::Back(shown()))?)
            }
        };
        Ok(Self { moment: Moment::parse(moment)?, back })
    }
}

impl Moment {
    fn parse(text: &str) -> Result<Self, ExpressionError> {
        let number = text.strip_prefix('#').unwrap_or(text);
        if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() {
            let revision = digits(number).filter(|revision| *revision > 0);
            return revision.map(Self::Revision).ok_or_else(|| ExpressionError::Number(text.to_owned()));
        }
        if text == "now" {
            return Ok(Self::Now);
        }
        if text == "oldest" {
            return Ok(Self::Oldest);
        }
        if let Ok(ago) = kstore_go_duration::parse_non_negative(text) {
            return Ok(Self::Ago(ago));
        }
        if let Some(time) = time_of_day(text) {
            return Ok(Self::TimeOfDay(time));
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Self::At(time));
        }
        if let Ok(time) = text.parse::<DateTime>() {
            return Ok(Self::Local(time));
        }
        match is_tag(text) {
            true => Ok(Self::Tag(text.to_owned())),
            false => Err(ExpressionError::Form(text.to_owned())),
        }
    }

    /// The time that the moment names, for a person whose clock is `offset` from UTC, at `now`; `None` if it names none.
    pub fn time(&self, now: Timestamp, offset: Offset) -> Option<Timestamp> {
        match self {
            Self::Ago(ago) => Some(now.checked_sub(*ago).unwrap_or(Timestamp::MIN)),
            Self::At(time) => Some(*time),
            Self::Local(time) => offset.to_timestamp(*time).ok(),
            Self::TimeOfDay(time) => {
                let today = offset.to_datetime(now).date();
                let found = offset.to_timestamp(today.to_datetime(*time)).ok()?;
                match found <= now {
                    true => Some(found),
                    false => found.checked_sub(DAY).ok(),
                }
            }
            Self::Revision(_) | Self::Now | Self::Oldest | Self::Tag(_) => None,
        }
    }
}

impl RevisionRange {
    /// Parses `A..B`, where one side may be missing; `None` if the text is no range.
    ///
    /// # Errors
    /// A side has none of the forms of an expression.
    pub fn parse(text: &str) -> Option<Result<Self, ExpressionError>> {
        let (after, upto) = text.split_once("..")?;
        if after.is_empty() && upto.is_empty() {
            return Some(Err(ExpressionError::Form(text.to_owned())));
        }
        let side = |text: &str| match text {
            "" => Ok(None),
            text => RevisionExpression::parse(text).map(Some),
        };
        Some(side(after).and_then(|after| Ok(Self { after, upto: side(upto)? })))
    }
}

fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// A time of day with two digits for each part, as clocks show it.
fn time_of_day(text: &str) -> Option<Time> {
    let has_form = matches!(text.as_bytes(), [b'0'..=b'9', b'0'..=b'9', b':', _, _, ..]);
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    if has_form && is_plain { text.parse().ok() } else { None }
}

/// Whether a text may be the name of a tag: a DNS label.
fn is_tag(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= 63 && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Moment {
        let parsed = RevisionExpression::parse(text).unwrap();
        assert_eq!(parsed.back, 0, "{text}");
        parsed.moment
    }

    #[test]
    fn the_forms_of_an_expression_are_told_apart() {
        for (text, expected) in [
            ("1234", Moment::Revision(1234)),
            ("#1234", Moment::Revision(1234)),
            ("now", Moment::Now),
            ("oldest", Moment::Oldest),
            ("5m", Moment::Ago(Duration::from_secs(300))),
            ("2h30m", Moment::Ago(Duration::from_secs(9000))),
            ("0.5s", Moment::Ago(Duration::from_millis(500))),
            ("2026-11-27T23:38:56Z", Moment::At("2026-11-27T23:38:56Z".parse().unwrap())),
            ("2026-11-27T23:38:56.5+01:00", Moment::At("2026-11-27T22:38:56.5Z".parse().unwrap())),
            ("2026-11-27T23:38", Moment::Local(jiff::civil::datetime(2026, 11, 27, 23, 38, 0, 0))),
            ("23:38:56", Moment::TimeOfDay(jiff::civil::time(23, 38, 56, 0))),
            ("23:38:56.25", Moment::TimeOfDay(jiff::civil::time(23, 38, 56, 250_000_000))),
            ("23:38", Moment::TimeOfDay(jiff::civil::time(23, 38, 0, 0))),
            ("before-upgrade", Moment::Tag("before-upgrade".to_owned())),
        ] {
            assert_eq!(moment(text), expected, "{text}");
        }
    }

    #[test]
    fn a_tilde_goes_back_by_outside_writes() {
        let back = |text: &str| RevisionExpression::parse(text).map(|parsed| (parsed.moment, parsed.back));
        assert_eq!(back("now~2"), Ok((Moment::Now, 2)));
        assert_eq!(back("#263~"), Ok((Moment::Revision(263), 1)));
        assert_eq!(back("5m~0"), Ok((Moment::Ago(Duration::from_secs(300)), 0)));
        for text in ["now~x", "now~-1", "now~1~1", "now~100001", "now~99999999999999999999"] {
            assert_eq!(back(text), Err(ExpressionError::Back(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_what_to_write() {
        for text in ["0", "#0", "99999999999999999999"] {
            assert_eq!(RevisionExpression::parse(text), Err(ExpressionError::Number(text.to_owned())));
        }
        let long = "a".repeat(EXPRESSION_BYTES + 1);
        for text in ["", "-5m", "Yesterday", "#", "#x", "25:00:00", "1..2", "a b", "-a", "<b>", &long] {
            let error = RevisionExpression::parse(text).unwrap_err();
            assert!(error.to_string().contains("write a number such as 244"), "{text}: {error}");
        }
    }

    #[test]
    fn ranges_may_have_one_side() {
        let side = |text: &str| RevisionExpression::parse(text).ok();
        let range = |text: &str| RevisionRange::parse(text).unwrap().map(|range| (range.after, range.upto));
        assert_eq!(range("244..#313"), Ok((side("244"), side("313"))));
        assert_eq!(range("5m.."), Ok((side("5m"), None)));
        assert_eq!(range("..now~2"), Ok((None, side("now~2"))));
        assert!(range("..").is_err() && range("a b..").is_err() && range("1..2..3").is_err());
        assert_eq!(RevisionRange::parse("244"), None);
    }

    #[test]
    fn a_time_of_day_is_the_newest_that_is_past_in_the_zone_of_the_person() {
        let now: Timestamp = "2026-11-27T00:30:00Z".parse().unwrap();
        let at = |text: &str, hours: i8| {
            let offset = Offset::constant(hours);
            moment(text).time(now, offset).unwrap().to_string()
        };
        assert_eq!(at("00:15:00", 0), "2026-11-27T00:15:00Z");
        assert_eq!(at("00:45:00", 0), "2026-11-26T00:45:00Z");
        assert_eq!(at("00:45:00", 1), "2026-11-26T23:45:00Z");
        assert_eq!(at("23:00:00", -2), "2026-11-26T01:00:00Z");
        assert_eq!(at("5m", 3), "2026-11-27T00:25:00Z");
        assert_eq!(at("2026-11-27T01:00:00", 1), "2026-11-27T00:00:00Z");
        assert_eq!(moment("now").time(now, Offset::UTC), None);
    }
}

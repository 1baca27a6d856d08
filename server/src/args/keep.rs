//! Limits of stored data: [`HistoryBounds`] (`--history`) and [`Quota`] (`--quota-bytes`).

use super::number;
use std::str::FromStr;
use std::time::Duration;

/// History that automatic compaction keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Revisions younger than this.
    For(Duration),
    /// This many of the newest revisions.
    Revisions(u64),
    /// Everything.
    All,
}

impl FromStr for History {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is none of: a time such as 30s, 5m, 2h or 7d; a count such as 10000revs; all")
        };
        if text == "all" {
            return Ok(Self::All);
        }
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs).ok_or_else(wrong);
        Ok(match unit {
            "revs" => Self::Revisions(number),
            "s" => Self::For(seconds(1)?),
            "m" => Self::For(seconds(60)?),
            "h" => Self::For(seconds(3600)?),
            "d" => Self::For(seconds(86400)?),
            _ => return Err(wrong()),
        })
    }
}

/// Bounds of the history: in time or revisions, and in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryBounds {
    /// Bound in time or revisions.
    pub(crate) kept: History,
    /// Most bytes of versions that are not the newest of their keys; `None`: half of the quota, and with the store alone no bound but the
    /// quota.
    pub(crate) bytes: Option<u64>,
}

impl FromStr for HistoryBounds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kept, bytes)) = text.split_once(',') else {
            return Ok(Self { kept: text.parse()?, bytes: None });
        };
        let bytes = number::bytes(bytes).ok().and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or("expected a number of bytes after the comma, for example 7d,20GiB")?;
        Ok(Self { kept: kept.parse()?, bytes: Some(bytes) })
    }
}

/// Largest amount of stored data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// The store's default quota.
    Default,
    /// This number of bytes.
    Bytes(u64),
    /// No limit.
    None,
}

impl Quota {
    /// Converts `--quota-bytes` as etcd does: zero is the default, a negative number disables the quota.
    pub(crate) fn of(bytes: Option<i64>) -> Self {
        match bytes {
            None | Some(0) => Self::Default,
            Some(bytes) => u64::try_from(bytes).map_or(Self::None, Self::Bytes),
        }
    }
}

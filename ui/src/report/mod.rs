//! Report files: one HTML file with the page, its policy, and the data of a cluster over a window of revisions. It opens without a server.
//! [`Recording`] takes what a server answers, and [`Recording::write`] makes the file. Pure: `docs/report.md` has the format.

mod chunk;
mod delta;
mod encode;
mod facts;
mod limits;
mod loss;
mod mask;
mod page;
mod recording;

use encode::{Extent, Lost, encode};
pub use facts::{Mark, MarkKind};
pub use limits::FILE_BYTES;
use limits::OUTPUT_BYTES;
use loss::{Importance, Loss, ORDER};
pub use recording::{ObjectKey, PodOfRecording, Recording};
use serde_json::{Value, json};

/// What a report says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// What it is about: a command, the name of a test, a server.
    pub title: String,
    /// When it was made, by the cluster's clock: RFC 3339.
    pub time: String,
    /// The clock of the cluster: `real` or `virtual`.
    pub clock: String,
    /// The user as whom the cluster was read.
    pub user: String,
    /// The namespace that it is restricted to; empty: all.
    pub namespace: String,
    /// Why a test failed; empty for others.
    pub failure: String,
    /// The output of a test or a command, of which the end is kept.
    pub output: String,
    /// The version of the program that made it.
    pub version: String,
}

/// Not even the rows of the newest revision fit in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the cluster has too many objects for a report of {} MiB: choose a namespace",
            FILE_BYTES >> 20
        )
    }
}

impl std::error::Error for TooLarge {}

impl Recording {
    /// The report as a file of at most [`FILE_BYTES`]. What is too much is left out, first what explains least, and the report says how
    /// much of what.
    ///
    /// # Errors
    /// Not even the newest rows fit.
    pub fn write(&self, about: &About) -> Result<Vec<u8>, TooLarge> {
        self.write_within(about, FILE_BYTES)
    }

    fn write_within(&self, about: &About, most: usize) -> Result<Vec<u8>, TooLarge> {
        let title =
            if about.title.is_empty() { "kstore".to_owned() } else { format!("kstore: {}", about.title) };
        let data = self.data(about, page::room(&title, most)).ok_or(TooLarge)?;
        Ok(page::page(&title, &data))
    }

    /// The data of the file, in at most `room` bytes.
    fn data(&self, about: &About, room: usize) -> Option<Vec<u8>> {
        let importance = Importance::of(self);
        let mut lost = Lost::new();
        lost.extend(
            [(Loss::Unread, self.unread()), (Loss::NotKept, self.not_kept)]
                .into_iter()
                .filter(|(_, n)| *n > 0),
        );
        // Facts are small. Where even rows and writes do not fit beside them, there are none.
        [room / 4, 0].into_iter().find_map(|most| {
            let (facts, left_out) = self.facts.encode(most);
            let meta = |more: &Lost, from: i64| {
                let mut all = more.clone();
                all.extend(lost.iter().chain(&left_out));
                self.meta(about, &all, from)
            };
            let room = room - facts.len();
            let mut data = extents(self.changes.len())
                .find_map(|extent| encode(self, &importance, extent, room, meta).ok())?;
            data.extend_from_slice(&facts);
            Some(data)
        })
    }

    fn meta(&self, about: &About, lost: &Lost, from: i64) -> Value {
        let left_out: Vec<Value> =
            lost.iter().map(|(loss, number)| json!({"what": loss.text(), "count": number})).collect();
        json!({
            "title": about.title, "time": about.time, "clock": about.clock, "user": about.user,
            "namespace": about.namespace, "failure": end(&about.failure), "output": end(&about.output),
            "version": about.version, "from": from, "leftOut": left_out,
        })
    }
}

/// What a file may have, beginning with all of `changes`.
fn extents(changes: usize) -> impl Iterator<Item = Extent<'static>> {
    let whole = Extent { losses: &[], skipped: 0, has_states: true };
    let less = (0..=ORDER.len()).map(move |number| Extent { losses: &ORDER[..number], ..whole });
    let half = std::iter::successors(Some(changes / 2), |rest| (*rest > 0).then_some(rest / 2));
    let fewer = half.map(move |rest| Extent { losses: &ORDER, skipped: changes - rest, ..whole });
    let rows = Extent { losses: &ORDER, skipped: changes, has_states: false };
    less.chain(fewer).chain([rows])
}

/// The end of a text that is too long.
fn end(text: &str) -> String {
    match text.len().checked_sub(OUTPUT_BYTES) {
        Some(cut) if cut > 0 => format!("…{}", &text[text.ceil_char_boundary(cut)..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;

//! Says on standard error how far a long start is: a store with many objects is read for seconds.

use kstore_storage::load_progress::LoadProgress;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// Time without a word, and between two lines.
const SILENCE: Duration = Duration::from_secs(1);
/// Number of objects below which a start is fast; that it takes longer is not for their number.
const MANY: usize = 10_000;

/// Reports until the value is dropped. The start computes on its own thread meanwhile.
pub(crate) fn begin(progress: Arc<LoadProgress>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::time::sleep(SILENCE).await;
            if let Some(line) = line(progress.get()) {
                tracing::warn!("{line}");
            }
        }
    }))
}

/// The line for so many of so many objects; `None` if there is nothing to say.
fn line((done, total): (usize, usize)) -> Option<String> {
    let is_worth = total >= MANY && done < total;
    is_worth.then(|| format!("opening the store: {} of {} objects", grouped(done), grouped(total)))
}

/// A number with commas between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_start_says_how_far_it_is_and_a_small_one_nothing() {
        let expected = "opening the store: 61,000 of 117,343 objects";
        assert_eq!(line((61_000, 117_343)).as_deref(), Some(expected));
        for quiet in [(0, 0), (10, 9_999), (117_343, 117_343)] {
            assert_eq!(line(quiet), None, "{quiet:?}");
        }
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}

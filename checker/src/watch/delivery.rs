//! The responses of a watch with fragments joined.

use crate::describe;
use crate::history::{Event, Watch, WatchContent};

/// A response with events or progress.
#[derive(Debug)]
pub(super) struct Delivery<'a> {
    /// When the response arrived; for fragments, the last one.
    pub(super) at: u64,
    /// The header's revision.
    pub(super) revision: i64,
    /// The events; empty for a progress response.
    pub(super) events: Vec<&'a Event>,
}

impl Delivery<'_> {
    pub(super) fn is_progress(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn describe(&self) -> String {
        let events: Vec<_> = self.events.iter().map(|event| describe::event(event)).collect();
        let said = if events.is_empty() { "progress".into() } else { events.join(", ") };
        format!("[{}] revision {}: {said}", describe::time(self.at), self.revision)
    }
}

pub(super) fn of(watch: &Watch) -> Vec<Delivery<'_>> {
    let mut deliveries: Vec<Delivery<'_>> = Vec::new();
    let mut open = false;
    for response in &watch.responses {
        let (at, revision) = (response.at, response.revision);
        match &response.said {
            WatchContent::Created | WatchContent::Canceled { .. } => {}
            WatchContent::Progress => deliveries.push(Delivery { at, revision, events: Vec::new() }),
            WatchContent::Events { events, fragment } => {
                match deliveries.last_mut().filter(|_| open) {
                    Some(last) => {
                        last.at = at;
                        last.events.extend(events);
                    }
                    None => deliveries.push(Delivery { at, revision, events: events.iter().collect() }),
                }
                open = *fragment;
            }
        }
    }
    deliveries
}

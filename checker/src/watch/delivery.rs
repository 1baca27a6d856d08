//! What a watch was told, response by response, with fragments put together.

use crate::describe;
use crate::history::{Event, Said, Watch};

/// A response that says something about revisions.
#[derive(Debug)]
pub(super) struct Delivery<'a> {
    /// When it came; of fragments, the last.
    pub(super) at: u64,
    /// The header's revision.
    pub(super) revision: i64,
    /// The events; none is word of progress.
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
            Said::Created | Said::Canceled { .. } => {}
            Said::Progress => deliveries.push(Delivery { at, revision, events: Vec::new() }),
            Said::Events { events, fragment } => {
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

//! The list of faults in the annotation of a Node, as text: which items it has, how one is written, and what adds or withdraws one. Pure.

use super::request::{self, FaultRequest};
use super::table::find;
use crate::limits::FAULTS_PER_NODE;
use serde::Serialize;
use std::time::Duration;

/// The characters that separate the parts of an item, and items.
const SEPARATORS: [char; 4] = [';', '@', '+', '/'];

/// A fault of a node with its times, as the annotation `kubelet-sim.kstore.io/fault` and a NodeFault have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFault {
    /// Its name, such as `crash`.
    pub fault: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// From the request until it begins.
    pub after: Option<Duration>,
    /// How long it holds; `None`: until it is withdrawn.
    pub duration: Option<Duration>,
    /// From one beginning to the next; `None`: it happens once.
    pub every: Option<Duration>,
}

impl NodeFault {
    /// Whether a fault has this name.
    ///
    /// # Errors
    /// None has; the text has the nearest name, or all.
    pub fn check_name(name: &str) -> Result<(), String> {
        find(name).map(drop)
    }

    /// The item of the annotation: `NAME[=VALUE][@AFTER][+DURATION][/EVERY]`.
    ///
    /// # Errors
    /// What is wrong: an unknown name, a value of another form, or times that do not go together.
    pub fn item(&self) -> Result<String, String> {
        let Self { fault, value, after, duration, every } = self;
        let mut item = fault.clone();
        if let Some(value) = value {
            if let Some(separator) = value.chars().find(|one| SEPARATORS.contains(one)) {
                return Err(format!("fault {fault:?}: a value has no {separator:?}"));
            }
            item = format!("{item}={value}");
        }
        for (separator, time) in [('@', after), ('+', duration), ('/', every)] {
            if let Some(time) = time {
                // A number of seconds, which any parser of the annotation reads.
                item = format!("{item}{separator}{}", time.as_secs_f64());
            }
        }
        match request::parse(&item)?.as_slice() {
            [one] if one.kind.name() == fault => Ok(item),
            _ => Err(format!("{fault:?} is no name of a fault")),
        }
    }
}

/// The items of a list.
pub(crate) fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(';').map(str::trim).filter(|item| !item.is_empty())
}

/// The name of the fault of an item.
fn name_of(item: &str) -> &str {
    item.split(|one| one == '=' || SEPARATORS.contains(&one)).next().unwrap_or_default().trim()
}

/// What a caller changes about the faults in the annotation of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultChange {
    /// Adds an item, beside those that the list has.
    Add(String),
    /// Withdraws one item of exactly this text, if there is one.
    Withdraw(String),
    /// Withdraws all items of a fault, and those of all faults if it has no name.
    Heal(Option<String>),
}

impl FaultChange {
    /// Most faults of an annotation.
    pub const MOST: usize = FAULTS_PER_NODE;

    /// The list of an annotation after the change. Items in `over` have ended for good: one more leaves them out, so that they use up no
    /// place.
    ///
    /// # Errors
    /// The node would have too many faults.
    pub fn apply(&self, list: &str, over: &[String]) -> Result<String, String> {
        let mut kept: Vec<&str> = items(list).collect();
        match self {
            Self::Add(item) => {
                for ended in over {
                    if let Some(at) = kept.iter().position(|one| one == ended) {
                        kept.remove(at);
                    }
                }
                kept.push(item);
                if kept.len() > FAULTS_PER_NODE {
                    return Err(format!("a node has at most {FAULTS_PER_NODE} faults: withdraw one"));
                }
            }
            Self::Withdraw(item) => {
                if let Some(at) = kept.iter().position(|one| one == item) {
                    kept.remove(at);
                }
            }
            Self::Heal(name) => kept.retain(|item| name.as_ref().is_some_and(|name| name_of(item) != name)),
        }
        Ok(kept.join("; "))
    }
}

/// A fault of a node as it is at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultReport {
    /// Its name.
    pub fault: String,
    /// Its text with value and times, as the annotation has it.
    pub item: String,
    /// What asks for it: `annotation`, `nodefault/NAME`, or `stop`.
    pub by: String,
    /// Whether it waits for its (next) beginning, holds, or is over.
    pub state: FaultPhase,
    /// Since when its times count.
    pub since: jiff::Timestamp,
    /// When its state changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<jiff::Timestamp>,
}

/// Where a fault of a node is in its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultPhase {
    /// It begins later.
    Waiting,
    /// It holds.
    Active,
    /// It has ended and does not begin again.
    Over,
}

impl FaultRequest {
    /// The report of a request of time `from`; `item` is its text if the annotation has it.
    pub(crate) fn report(
        &self,
        item: Option<&str>,
        by: &str,
        from: jiff::Timestamp,
        now: jiff::Timestamp,
    ) -> FaultReport {
        let window = self.window(from, now);
        let state = match (window.since, window.next) {
            (Some(_), _) => FaultPhase::Active,
            (None, Some(_)) => FaultPhase::Waiting,
            // A machine that is gone does not come back.
            (None, None) if self.lasts_for_good() => FaultPhase::Active,
            (None, None) => FaultPhase::Over,
        };
        let length = self.duration.filter(|length| !length.is_zero());
        let written = || {
            let length = length.map(|length| format!("+{}", length.as_secs_f64())).unwrap_or_default();
            format!("{}{length}", self.kind.name())
        };
        FaultReport {
            fault: self.kind.name().to_owned(),
            item: item.map_or_else(written, str::to_owned),
            by: by.to_owned(),
            state,
            since: from,
            next: window.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(fault: &str, value: Option<&str>, times: [Option<u64>; 3]) -> Result<String, String> {
        let [after, duration, every] = times.map(|time| time.map(Duration::from_secs));
        NodeFault { fault: fault.to_owned(), value: value.map(str::to_owned), after, duration, every }.item()
    }

    #[test]
    fn a_fault_is_written_as_an_item_that_is_read_back() {
        assert_eq!(fault("crash", None, [None; 3]), Ok("crash".to_owned()));
        let all = fault("slow", Some("3"), [Some(5), Some(60), Some(600)]).unwrap();
        assert_eq!(all, "slow=3@5+60/600");
        let read = &request::parse(&all).unwrap()[0];
        let seconds = |time: Duration| time.as_secs();
        assert_eq!(seconds(read.after), 5);
        assert_eq!((read.duration.map(seconds), read.every.map(seconds)), (Some(60), Some(600)));
        let half = NodeFault {
            fault: "crash".to_owned(),
            duration: Some(Duration::from_millis(1500)),
            ..NodeFault::default()
        };
        assert_eq!(half.item().unwrap(), "crash+1.5");
    }

    #[test]
    fn a_wrong_fault_is_no_item_and_cannot_bring_a_second_one() {
        for (refused, expected) in [
            (fault("crush", None, [None; 3]), "unknown fault \"crush\"; did you mean \"crash\"?"),
            (fault("not-ready", Some("a; crash"), [None; 3]), "fault \"not-ready\": a value has no ';'"),
            (fault("not-ready", Some("a+5s"), [None; 3]), "fault \"not-ready\": a value has no '+'"),
            (fault("crash", None, [None, Some(60), Some(60)]), "needs a duration below 60"),
            (fault("crash; freeze", None, [None; 3]), "is no name of a fault"),
            (fault("crash+5s", None, [None; 3]), "is no name of a fault"),
            (fault("", None, [None; 3]), "is no name of a fault"),
            (fault("reboot", None, [None, Some(5), None]), "has no duration of its own"),
        ] {
            let problem = refused.unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_change_leaves_the_other_faults_as_they_are() {
        let list = "crash@5+60; not-ready=PLEG is not healthy;slow=3;crash@5+60";
        let apply = |change: FaultChange, over: &[&str]| {
            change.apply(list, &over.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
        };
        let heal = |name: Option<&str>| FaultChange::Heal(name.map(str::to_owned));
        assert_eq!(
            apply(heal(Some("crash")), &[]).unwrap(),
            "not-ready=PLEG is not healthy; slow=3",
            "by its name alone"
        );
        assert_eq!(apply(heal(Some("slo")), &[]).unwrap().matches(';').count(), 3);
        assert_eq!(apply(heal(None), &[]).unwrap(), "");
        let withdrawn = apply(FaultChange::Withdraw("crash@5+60".to_owned()), &[]).unwrap();
        assert_eq!(withdrawn, "not-ready=PLEG is not healthy; slow=3; crash@5+60");
        let added = apply(FaultChange::Add("hang".to_owned()), &["crash@5+60"]).unwrap();
        assert_eq!(added, "not-ready=PLEG is not healthy; slow=3; crash@5+60; hang");
        let full = vec!["hang"; FAULTS_PER_NODE].join(";");
        let refused = FaultChange::Add("hang".to_owned()).apply(&full, &[]).unwrap_err();
        assert_eq!(refused, "a node has at most 16 faults: withdraw one");
    }
}

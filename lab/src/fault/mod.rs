//! Faults of single requests and watches (§5.3), and the seeded rules that inject them (§5.5). Forms and bounds are here; `decide` draws,
//! `answer` says what each does, and `rules` holds those in force.
//!
//! Every fault but [`Fault::Conflict`] is something that a correct cluster of several kube-apiservers on one etcd can show.

pub mod answer;
pub mod decide;
mod rules;

use crate::error::{bad_request, too_many};
use crate::form;
use crate::limits;
pub use crate::request::CutForm;
use crate::select::{ClientSelector, RequestSelector};
use kstore_api::status::Status;
pub use rules::{FaultRules, RuleCount};
use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

/// A fault of one request or watch. In JSON an object whose member `fault` has the name, beside the fault's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Fault {
    /// Before an update or patch that carries a `resourceVersion` is performed, the lab changes annotation [`TOUCH`] of the object. The
    /// server's own 409 follows.
    Touch {},
    /// 429; nothing is performed.
    TooMany {
        /// `Retry-After`; at least 1.
        #[serde(default = "one_second")]
        seconds: u32,
    },
    /// 500 of an etcd that elects a leader; nothing is performed.
    Error {
        /// Text of the error.
        #[serde(default)]
        how: ErrorText,
    },
    /// The connection is reset, or 503; nothing is performed.
    Unavailable {
        /// Form of the refusal.
        #[serde(default)]
        how: Unavailability,
    },
    /// 504; nothing is performed.
    Timeout {
        /// Real time before the answer.
        #[serde(default, with = "form::duration", skip_serializing_if = "Duration::is_zero")]
        after: Duration,
    },
    /// The request is performed; the answer does not arrive.
    LostAnswer {
        /// What the client sees instead.
        #[serde(default)]
        how: Loss,
    },
    /// The request is performed late, in real time.
    Slow {
        /// Delay.
        #[serde(rename = "for", default, with = "form::duration", skip_serializing_if = "Duration::is_zero")]
        delay: Duration,
        /// In seeded rules, the most of a random delay that is added.
        #[serde(default, with = "form::duration", skip_serializing_if = "Duration::is_zero")]
        up_to: Duration,
    },
    /// 403, as for a role that this server has not seen; nothing is performed.
    ForbiddenYet {},
    /// 404, as for a CRD that this server has not seen; nothing is performed.
    NotFoundYet {},
    /// A watch ends.
    Cut {
        /// How it ends.
        #[serde(default)]
        how: CutForm,
        /// Events that the watch delivers before. Without it a plan cuts at the event of its trigger, and a rule draws 0 to 8.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// A watch gets 410 as an ERROR event, when it starts or before its next event.
    Expire {},
    /// A watch of Events answers 200 and ends without an event.
    SilentEnd {},
    /// A list with `resourceVersion=0` shows a state of up to `by` revisions ago.
    StaleLists {
        /// Revisions; at least 1.
        by: u64,
    },
    /// 409 although nothing changed: no real server does this. Allowed only with `illegal: true`.
    Conflict {},
}

/// Annotation that [`Fault::Touch`] changes.
pub const TOUCH: &str = "lab.kstore.io/touch";

/// Text of [`Fault::Error`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorText {
    /// `etcdserver: request timed out`.
    #[default]
    TimedOut,
    /// `etcdserver: leader changed`.
    LeaderChanged,
}

/// Form of [`Fault::Unavailable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unavailability {
    /// The connection is reset.
    #[serde(rename = "reset")]
    Reset,
    /// 503.
    #[default]
    #[serde(rename = "503")]
    Status,
}

/// What a client sees of a lost answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// The connection is reset.
    #[serde(rename = "reset")]
    Reset,
    /// 504.
    #[default]
    #[serde(rename = "504")]
    Status,
    /// Nothing until the client gives up.
    #[serde(rename = "silence")]
    Silence,
}

fn one_second() -> u32 {
    1
}

impl Fault {
    /// Every fault's name, with the names of its parameters.
    pub const FORMS: [(&'static str, &'static [&'static str]); 14] = [
        ("touch", &[]),
        ("too-many", &["seconds"]),
        ("error", &["how"]),
        ("unavailable", &["how"]),
        ("timeout", &["after"]),
        ("lost-answer", &["how"]),
        ("slow", &["for", "upTo"]),
        ("forbidden-yet", &[]),
        ("not-found-yet", &[]),
        ("cut", &["how", "after"]),
        ("expire", &[]),
        ("silent-end", &[]),
        ("stale-lists", &["by"]),
        ("conflict", &[]),
    ];

    /// Name in JSON, logs and counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Touch {} => "touch",
            Self::TooMany { .. } => "too-many",
            Self::Error { .. } => "error",
            Self::Unavailable { .. } => "unavailable",
            Self::Timeout { .. } => "timeout",
            Self::LostAnswer { .. } => "lost-answer",
            Self::Slow { .. } => "slow",
            Self::ForbiddenYet {} => "forbidden-yet",
            Self::NotFoundYet {} => "not-found-yet",
            Self::Cut { .. } => "cut",
            Self::Expire {} => "expire",
            Self::SilentEnd {} => "silent-end",
            Self::StaleLists { .. } => "stale-lists",
            Self::Conflict {} => "conflict",
        }
    }

    /// Whether a real cluster can show it.
    pub fn is_legal(&self) -> bool {
        !matches!(self, Self::Conflict {})
    }

    /// Whether the fault is one of the connection or body of a watch, and not of a request before it is performed.
    pub fn is_of_watch(&self) -> bool {
        matches!(self, Self::Cut { .. } | Self::Expire {} | Self::SilentEnd {})
    }

    /// The parameters that the fault of this name has; else the known names.
    pub(crate) fn members(name: &str) -> Result<&'static [&'static str], Vec<&'static str>> {
        let found = Self::FORMS.iter().find(|(known, _)| *known == name).map(|(_, members)| *members);
        found.ok_or_else(|| Self::FORMS.iter().map(|(known, _)| *known).collect())
    }

    /// What is wrong with the parameters, with the member's name.
    pub(crate) fn problem(&self) -> Option<(&'static str, String)> {
        let most = limits::FAULT_DELAY;
        let is_long = |delay: Duration| delay > most;
        match self {
            Self::TooMany { seconds } if !(1..=limits::RETRY_AFTER).contains(seconds) => {
                Some(("seconds", format!("must be from 1 to {}", limits::RETRY_AFTER)))
            }
            Self::StaleLists { by: 0 } => Some(("by", "must be at least 1".to_owned())),
            Self::Slow { delay, up_to } if delay.is_zero() && up_to.is_zero() => {
                Some(("for", "is needed, or upTo".to_owned()))
            }
            Self::Slow { delay, .. } if is_long(*delay) => Some(("for", format!("must be at most {most:?}"))),
            Self::Slow { up_to, .. } if is_long(*up_to) => {
                Some(("upTo", format!("must be at most {most:?}")))
            }
            Self::Timeout { after } if is_long(*after) => {
                Some(("after", format!("must be at most {most:?}")))
            }
            _ => None,
        }
    }
}

/// A seeded rule: which requests get a fault, and how often.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Name in counts. A rule without one is called after its fault and its place among the unnamed rules with that fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Clients; by default all but the cluster's own components.
    #[serde(skip_serializing_if = "form::is_default")]
    pub client: ClientSelector,
    /// Requests; by default all that the fault can affect.
    #[serde(skip_serializing_if = "form::is_default")]
    pub request: RequestSelector,
    /// The fault with its parameters.
    #[serde(flatten)]
    pub fault: Fault,
    /// Probability for each request, from 0 to 1.
    pub probability: f64,
    /// Only the first so many requests of a client with one verb and path are affected; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Most hits among the requests of a client with one verb and path; `None`: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Whether a fault is allowed that no real server shows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub illegal: bool,
}

/// The members of a rule that do not depend on its fault.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RuleBase {
    name: String,
    client: ClientSelector,
    request: RequestSelector,
    probability: f64,
    first: Option<u64>,
    times: Option<u64>,
    illegal: bool,
}

impl Default for RuleBase {
    fn default() -> Self {
        Self {
            name: String::new(),
            client: ClientSelector::default(),
            request: RequestSelector::default(),
            probability: 1.0,
            first: None,
            times: None,
            illegal: false,
        }
    }
}

/// Names of the members of [`RuleBase`].
const RULE: [&str; 7] = ["name", "client", "request", "probability", "first", "times", "illegal"];

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = form::split(deserializer, "fault", &RULE, Fault::members)?;
        let base = form::read::<RuleBase, D::Error>(members.common)?;
        let fault = form::read::<Fault, D::Error>(members.special)?;
        let RuleBase { name, client, request, probability, first, times, illegal } = base;
        Ok(Self { name, client, request, fault, probability, first, times, illegal })
    }
}

impl Rule {
    /// A rule that injects a fault into every request that it can affect.
    pub fn always(fault: Fault) -> Self {
        let base = RuleBase::default();
        let RuleBase { name, client, request, probability, first, times, illegal } = base;
        Self { name, client, request, fault, probability, first, times, illegal }
    }
}

/// The rules in force with their seed: the body of `PUT /faults`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleSet {
    /// Decides all draws.
    #[serde(default)]
    pub seed: u64,
    /// Rules in order: the first that hits decides the refusal, delays add.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

impl RuleSet {
    /// Checks bounds, parameters and legality.
    ///
    /// # Errors
    /// 400: a member is wrong. 403: a fault that no real server shows without `illegal`. 429: there are too many rules.
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.rules.len() > limits::RULES {
            return Err(too_many("rules", limits::RULES, "too many fault rules"));
        }
        for (place, rule) in self.rules.iter().enumerate() {
            let at = |member: &str| format!("/rules/{place}/{member}");
            if !(0.0..=1.0).contains(&rule.probability) {
                return Err(bad_request(&at("probability"), "must be from 0 to 1"));
            }
            if let Some((member, problem)) = rule.fault.problem() {
                return Err(bad_request(&at(member), problem));
            }
            if matches!(rule.fault, Fault::ForbiddenYet {} | Fault::NotFoundYet {} | Fault::SilentEnd {}) {
                let text = format!("{} is a fault of plans, and of no rule", rule.fault.name());
                return Err(bad_request(&at("fault"), text));
            }
            check_legality(&rule.fault, rule.illegal, &format!("/rules/{place}"))?;
        }
        let names = self.names();
        let is_twice = |place: &usize| names[..*place].contains(&names[*place]);
        match (0..names.len()).find(is_twice) {
            Some(place) => Err(bad_request(&format!("/rules/{place}/name"), "another rule has this name")),
            None => Ok(()),
        }
    }
}

/// Refuses a fault that no real server shows, unless it is said to be illegal.
///
/// # Errors
/// 403.
pub(crate) fn check_legality(fault: &Fault, is_illegal: bool, pointer: &str) -> Result<(), Status> {
    if fault.is_legal() || is_illegal {
        return Ok(());
    }
    let text = format!(
        "{pointer}/fault: no real server does {}: a program may break that is right. Use touch, or say illegal: true",
        fault.name()
    );
    Err(Status::foreign(403, "Forbidden".to_owned(), text))
}

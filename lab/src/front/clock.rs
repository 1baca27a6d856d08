//! Calls about time: the clock, advances, settling, waits.

use super::{Call, Reply, parse};
use crate::advance::{self, Advance, Advanced};
use crate::clock::driver::Signal;
use crate::clock::{Ended, Mode, UP_TO};
use crate::cluster::{Current, stays_real};
use crate::error::{self, bad_request, impossible};
use crate::objects::{self, Condition, Expression, ObjectName};
use crate::settle::{self, Settle};
use crate::{limits, values};
use jiff::Timestamp;
use kstore_api::status::Status;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// A mode in bodies: of `PUT /clock`, and of a start.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ClockBody {
    mode: String,
    factor: Option<f64>,
    up_to: Option<String>,
}

impl ClockBody {
    /// The mode.
    ///
    /// # Errors
    /// 400: a member is wrong or does not belong to the mode.
    pub(super) fn mode(&self, pointer: &str) -> Result<Mode, Status> {
        let at = |member: &str| format!("{pointer}/{member}");
        let (mode, factor) = match (self.mode.as_str(), self.factor) {
            ("scaled", None) => return Err(bad_request(&at("factor"), "mode scaled needs a factor")),
            ("scaled", Some(factor)) => (Mode::Scaled(factor), None),
            ("real", factor) => (Mode::Real, factor),
            ("manual", factor) => (Mode::Manual, factor),
            ("auto", factor) => {
                let up_to = self.up_to.as_deref().map(|text| values::clock_duration(text, &at("upTo")));
                (Mode::Auto(up_to.transpose()?.unwrap_or(UP_TO)), factor)
            }
            (other, _) => {
                return Err(bad_request(
                    &at("mode"),
                    format!("{other:?} is none of real, scaled, manual, auto"),
                ));
            }
        };
        let [least, most] = limits::FACTORS;
        match mode {
            _ if factor.is_some() => Err(bad_request(&at("factor"), "belongs to mode scaled")),
            Mode::Scaled(factor) if !(least..=most).contains(&factor) => {
                Err(bad_request(&at("factor"), format!("must be from {least} to {most}")))
            }
            Mode::Auto(up_to) if up_to.is_zero() || up_to > limits::ADVANCE => {
                Err(bad_request(&at("upTo"), "must be positive and at most 10 years"))
            }
            mode if self.up_to.is_some() && !matches!(mode, Mode::Auto(_)) => {
                Err(bad_request(&at("upTo"), "belongs to mode auto"))
            }
            mode => Ok(mode),
        }
    }
}

/// `PUT /clock`.
pub(super) async fn set(call: &Call) -> Result<Reply, Status> {
    let body: ClockBody = parse::body(&call.body)?;
    call.cluster.set_mode(body.mode("")?).await?;
    Reply::ok(&call.cluster.clock()?)
}

/// What an object has to be, in bodies of `/wait` and of `condition`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConditionBody {
    object: String,
    matches: Option<Value>,
    condition: Option<String>,
    deleted: Option<bool>,
    cel: Option<String>,
    limit: Option<String>,
    patience: Option<String>,
}

impl ConditionBody {
    fn read(&self, pointer: &str) -> Result<(ObjectName, Condition), Status> {
        let name = ObjectName::parse(&self.object, &format!("{pointer}/object"))?;
        let condition = match (&self.matches, &self.condition, self.deleted, &self.cel) {
            (Some(matches), None, None, None) => Condition::Matches(matches.clone()),
            (None, Some(kind), None, None) => Condition::Is(kind.clone()),
            (None, None, Some(true), None) => Condition::Deleted,
            (None, None, None, Some(text)) => {
                Condition::Holds(Expression::compile(text, &format!("{pointer}/cel"))?)
            }
            _ => {
                let text = "needs exactly one of matches, condition, cel and deleted: true";
                return Err(bad_request(if pointer.is_empty() { "/" } else { pointer }, text));
            }
        };
        Ok((name, condition))
    }
}

/// Body of `/clock/advance`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AdvanceBody {
    by: Option<String>,
    to: Option<String>,
    next: Option<bool>,
    settled: Option<bool>,
    condition: Option<ConditionBody>,
    limit: Option<String>,
    patience: Option<String>,
    granule: Option<String>,
}

fn patience(text: Option<&str>) -> Result<Duration, Status> {
    let given = text.map(|text| values::duration(text, "/patience")).transpose()?;
    let patience = given.unwrap_or(limits::PATIENCE);
    match patience > limits::PATIENCE_MOST {
        true => Err(bad_request("/patience", "must be at most an hour")),
        false => Ok(patience),
    }
}

fn limit(text: Option<&str>, default: Duration) -> Result<Duration, Status> {
    let given = text.map(|text| values::clock_duration(text, "/limit")).transpose()?;
    let limit = given.unwrap_or(default);
    match limit > limits::ADVANCE {
        true => Err(bad_request("/limit", "must be at most 10 years")),
        false => Ok(limit),
    }
}

/// Refuses calls that move a clock which moves by itself.
fn needs_manual(call: &Call, what: &str) -> Result<(), Status> {
    match call.cluster.mode() {
        Mode::Manual => Ok(()),
        _ if call.cluster.stays_real() => Err(stays_real()),
        mode => Err(impossible(format!(
            "{what} needs a clock in mode manual, and this one is {}: change it with PUT /clock",
            mode.name()
        ))),
    }
}

impl AdvanceBody {
    /// The target and the number of stops of an advance, without its goal.
    fn advance(&self, now: Timestamp) -> Result<Advance, Status> {
        let given = [
            self.by.is_some(),
            self.to.is_some(),
            self.next == Some(true),
            self.settled == Some(true),
            self.condition.is_some(),
        ];
        if given.iter().filter(|given| **given).count() != 1 {
            return Err(bad_request("/", "needs exactly one of by, to, next, settled and condition"));
        }
        let limit = limit(self.limit.as_deref(), limits::ADVANCE)?;
        let far = now.checked_add(limit).map_err(|_| bad_request("/limit", "is too far away"))?;
        let target = match (&self.by, &self.to) {
            (Some(by), _) => {
                let by = values::clock_duration(by, "/by")?;
                if by > limits::ADVANCE {
                    return Err(bad_request("/by", "must be at most 10 years"));
                }
                now.checked_add(by).map_err(|_| bad_request("/by", "is too far away"))?
            }
            (None, Some(to)) => {
                let to = values::time(to, "/to")?;
                if to < now {
                    return Err(bad_request("/to", format!("the clock is at {now} already")));
                }
                if to > now.checked_add(limits::ADVANCE).unwrap_or(Timestamp::MAX) {
                    return Err(bad_request("/to", "must be at most 10 years away"));
                }
                to
            }
            (None, None) => far,
        };
        let granule =
            self.granule.as_deref().map(|text| values::clock_duration(text, "/granule")).transpose()?;
        Ok(Advance {
            target: target.min(far),
            stops: if self.next == Some(true) { 1 } else { limits::STOPS },
            goal: None,
            patience: patience(self.patience.as_deref())?,
            granule: granule.unwrap_or_default(),
        })
    }
}

/// `POST /clock/advance`.
pub(super) async fn advance(call: &Call) -> Result<Reply, Status> {
    let body: AdvanceBody = parse::body(&call.body)?;
    needs_manual(call, "advance")?;
    let current = call.cluster.current()?;
    let _moving = call.cluster.begin_moving()?;
    let (running, clients) = (current.running(), &current.bridge.clients);
    let from = running.time();
    let mut how = body.advance(from)?;
    let first_stop = running.driver.stops();
    if body.settled == Some(true) {
        let limit = limit(body.limit.as_deref(), limits::SETTLE)?;
        let settle = Settle { limit, patience: how.patience, is_virtual: true };
        let settled = settle::settle(current.bridge.settling(), settle).await?;
        let ended = if settled.settled { Ended::Settled } else { Ended::Limit };
        let stops = running.driver.stops() - first_stop;
        let (time, revision) = (settled.time, settled.revision);
        let advanced = Advanced { from, time, stops, barriers: 0, ended, busy: settled.busy, revision };
        return Reply::ok(&advanced);
    }
    let waiting = match &body.condition {
        None => None,
        Some(condition) => {
            let (name, condition) = condition.read("/condition")?;
            let goal = Arc::new(Signal::default());
            how.goal = Some(goal.clone());
            let cluster = running.clone();
            Some(running.spawn(async move {
                if objects::wait(&cluster, &name, &condition).await.is_ok() {
                    goal.set();
                }
            }))
        }
    };
    let mut advanced = advance::advance(running, clients, &how).await.map_err(|_| error::ended())?;
    drop(waiting);
    if advanced.ended == Ended::There && how.goal.is_some() {
        advanced.ended = Ended::Limit;
    }
    Reply::ok(&advanced)
}

/// Body of `/clock/leap`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeapBody {
    by: String,
}

/// `POST /clock/leap`: one jump, forward or up to an hour backward.
pub(super) async fn leap(call: &Call) -> Result<Reply, Status> {
    let body: LeapBody = parse::body(&call.body)?;
    let is_back = values::signed_duration(&body.by, "/by")? < 0;
    let by = values::clock_duration(body.by.strip_prefix('-').unwrap_or(&body.by), "/by")?;
    if is_back && by > limits::LEAP_BACK {
        return Err(bad_request("/by", "must be at most an hour backward"));
    }
    if by > limits::LEAP {
        return Err(bad_request("/by", "must be at most 10 years"));
    }
    if call.cluster.stays_real() {
        return Err(stays_real());
    }
    let (from, running) = call.cluster.leap(by, is_back).await?;
    let (time, revision) = (running.time(), running.store().revision().0);
    let ended = Ended::There;
    Reply::ok(&Advanced { from, time, stops: 1, barriers: 0, ended, busy: Vec::new(), revision })
}

/// `GET /clock/wait?until=T` or `?for=D`.
pub(super) async fn wait(call: &Call) -> Result<Reply, Status> {
    parse::only(&call.query, &["until", "for"])?;
    let current = call.cluster.current()?;
    let running = current.running();
    let time = match (parse::text(&call.query, "until"), parse::text(&call.query, "for")) {
        (Some(until), None) => values::time(until, "until")?,
        (None, Some(length)) => {
            let length = values::clock_duration(length, "for")?.min(limits::ADVANCE);
            running.time().checked_add(length).map_err(|_| bad_request("for", "is too far away"))?
        }
        _ => return Err(bad_request("until", "the call needs either until or for")),
    };
    current.waits.until(running, time).await?;
    Reply::ok(&call.cluster.clock()?)
}

/// Body of `/settled` and `/quiet`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SettledBody {
    limit: Option<String>,
    patience: Option<String>,
}

/// The refusal of a call whose limit ran out.
fn timeout(what: &str, settled: &settle::Settled) -> Status {
    let busy = settled.busy.iter().map(crate::client::quiet::Busy::line);
    let text = format!("{what} after {} ms: {}", settled.waited, busy.clone().collect::<Vec<_>>().join("; "));
    error::timeout(text, busy)
}

/// `POST /settled`.
pub(super) async fn settled(call: &Call) -> Result<Reply, Status> {
    let body: SettledBody = parse::body(&call.body)?;
    let (limit, patience) =
        (limit(body.limit.as_deref(), limits::SETTLE)?, patience(body.patience.as_deref())?);
    let Current { bridge, .. } = call.cluster.current()?;
    let is_virtual = call.cluster.mode() == Mode::Manual;
    let moving = is_virtual.then(|| call.cluster.begin_moving()).transpose()?;
    let how = Settle { limit, patience, is_virtual };
    let settled = settle::settle(bridge.settling(), how).await?;
    drop(moving);
    match settled.settled {
        true => Reply::ok(&settled),
        false => Err(timeout("the cluster is not settled", &settled)),
    }
}

/// `POST /quiet`.
pub(super) async fn quiet(call: &Call) -> Result<Reply, Status> {
    let body: SettledBody = parse::body(&call.body)?;
    let patience = patience(body.patience.as_deref())?;
    let Current { bridge, .. } = call.cluster.current()?;
    let is_virtual = call.cluster.mode() == Mode::Manual;
    let moving = is_virtual.then(|| call.cluster.begin_moving()).transpose()?;
    let quiet = settle::quiet(bridge.settling(), patience).await?;
    drop(moving);
    match quiet.settled {
        true => Reply::ok(&quiet),
        false => Err(timeout("clients are not quiet", &quiet)),
    }
}

/// `POST /wait`: waits for an object. A manual clock passes meanwhile, up to the limit.
pub(super) async fn wait_for_object(call: &Call) -> Result<Reply, Status> {
    let body: ConditionBody = parse::body(&call.body)?;
    let (name, condition) = body.read("")?;
    let limit = limit(body.limit.as_deref(), limits::SETTLE)?;
    let patience = patience(body.patience.as_deref())?;
    let current = call.cluster.current()?;
    let (running, clients) = (current.running().clone(), &current.bridge.clients);
    let goal = Arc::new(Signal::default());
    let (cluster, reached, object, wanted) = (running.clone(), goal.clone(), name.clone(), condition.clone());
    let _waiting = running.spawn(async move {
        if objects::wait(&cluster, &object, &wanted).await.is_ok() {
            reached.set();
        }
    });
    if call.cluster.mode() == Mode::Manual {
        let _moving = call.cluster.begin_moving()?;
        let target = running.time().checked_add(limit).unwrap_or(Timestamp::MAX);
        let how = Advance { goal: Some(goal.clone()), patience, ..Advance::to(target) };
        advance::advance(&running, clients, &how).await.map_err(|_| error::ended())?;
    } else {
        // In real time the patience is the limit; the answer says so if it ran out.
        let _ = tokio::time::timeout(patience, goal.wait()).await;
    }
    let cluster = running.clone();
    let found = running.call(async move { objects::read(&cluster, &name).await });
    let found = found.await.map_err(|_| error::ended())??;
    match condition.holds(found.as_ref()) {
        true => Reply::ok(&found.unwrap_or(Value::Null)),
        false => {
            let shown =
                found.map_or("it does not exist".to_owned(), |found| format!("it is {}", found["status"]));
            Err(error::timeout(format!("{} is not what the call waits for: {shown}", body.object), [shown]))
        }
    }
}

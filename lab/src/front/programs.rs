//! Calls about programs: start, signal, end. They run commands as the server's user, so the start of the server has to allow them.

use super::{Call, Reply, clusters, parse};
use crate::authority::Credentials;
use crate::error::{bad_request, not_allowed};
use crate::programs::{ProgramControl as _, ProgramSignal, ProgramSpec};
use crate::{limits, values};
use kstore_api::status::Status;
use kstore_registry::user::MASTERS;
use serde::Deserialize;
use serde_json::json;

/// Refuses calls that would run commands, unless the start of the server allows them.
fn allowed(call: &Call) -> Result<(), Status> {
    match call.lab.allows_programs() {
        true => Ok(()),
        false => Err(not_allowed(
            "programs run with the rights of the server's user: start it as `run --lab`, or with --lab-programs",
        )),
    }
}

/// `GET /programs`.
pub(super) fn list(call: &Call) -> Result<Reply, Status> {
    Reply::ok(&json!({"programs": call.cluster.programs().reports()}))
}

/// `POST /programs`.
pub(super) async fn start(call: &Call) -> Result<Reply, Status> {
    allowed(call)?;
    let spec: ProgramSpec = parse::body(&call.body)?;
    spec.check()?;
    let programs = call.cluster.programs();
    if let Some(equal) = programs.equal(&spec)? {
        return Reply::ok(&equal);
    }
    let kubeconfig = match &spec.service_account {
        Some(account) => {
            let token = clusters::token(call, account, None).await?;
            call.cluster.kubeconfig(&Credentials::Token(account, &token))?
        }
        None => {
            let groups = spec.groups.clone().unwrap_or_else(|| vec![MASTERS.to_owned()]);
            clusters::one_group(&groups)?;
            call.cluster.kubeconfig(&Credentials::Certificate(&spec.user_name(), &groups))?
        }
    };
    Reply::with(201, &programs.run(spec, &kubeconfig)?)
}

/// `GET /programs/{name}`.
pub(super) fn get(call: &Call, name: &str) -> Result<Reply, Status> {
    Reply::ok(&call.cluster.programs().report(name)?)
}

/// `DELETE /programs/{name}?grace=D`.
pub(super) async fn end(call: &Call, name: &str) -> Result<Reply, Status> {
    parse::only(&call.query, &["grace"])?;
    let grace = parse::text(&call.query, "grace").map(|text| values::duration(text, "grace")).transpose()?;
    let grace = grace.unwrap_or(limits::PROGRAM_GRACE);
    if grace > limits::PROGRAM_GRACE_MOST {
        return Err(bad_request("grace", "must be at most ten minutes"));
    }
    call.cluster.programs().end(name, grace).await;
    Reply::ok(&json!({"name": name, "ended": true}))
}

/// Body of `POST /programs/{name}/signal`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalBody {
    signal: String,
}

/// `POST /programs/{name}/signal`.
pub(super) fn signal(call: &Call, name: &str) -> Result<Reply, Status> {
    allowed(call)?;
    let body: SignalBody = parse::body(&call.body)?;
    let signal = ProgramSignal::named(&body.signal).ok_or_else(|| {
        let known = ProgramSignal::ALL.map(|(name, _)| name).join(", ");
        bad_request("/signal", format!("{:?} is none of {known}", body.signal))
    })?;
    call.cluster.programs().signal(name, signal)?;
    get(call, name)
}

/// `POST /programs/{name}/start`: starts a program that has ended again.
pub(super) async fn start_again(call: &Call, name: &str) -> Result<Reply, Status> {
    allowed(call)?;
    let _: super::NoBody = parse::body(&call.body)?;
    call.cluster.programs().start(name).await?;
    get(call, name)
}

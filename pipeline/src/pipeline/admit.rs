//! Admission of requests whose body is not stored as sent: bindings, evictions, token requests, reviews,
//! scales, and streams to pods. Plugins and webhooks may change or refuse them. The modules `create`, `update` and
//! `delete` admit objects that are stored.

use super::Pipeline;
use kstore_admission::Subject;
use kstore_admission::dynamic::{Admitted, Calls, Options};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_registry::error::of_read;
use kstore_registry::request::{Request, Target, WriteOptions};
use kstore_registry::undecided::{Undecided, decided};
use kstore_registry::user::UserInfo;
use serde_json::Value;

/// The options of a write, and the calls of webhooks that its admission makes.
#[derive(Clone, Copy)]
pub(super) struct WriteCalls<'w> {
    pub(super) options: &'w WriteOptions,
    pub(super) calls: &'w Calls,
}

impl Pipeline {
    /// Admits the body of a POST to a subresource, or of a kind that is answered and not stored.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) async fn admit_posted(
        &self,
        request: &Request,
        mut posted: Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Status> {
        let calls = self.admission.calls(&request.user);
        let target = &request.target;
        let may_match = calls.may_match(Operation::Create, target.resource);
        let name = if target.name.is_empty() { meta::name(&posted).to_owned() } else { target.name.clone() };
        let subject = subject(&request.user, Operation::Create, target, &name);
        if !may_match && !self.admission.reviews_unstored(&subject) {
            return Ok(posted);
        }
        if self.admission.needs_newest(&subject) {
            // The cache may not have the objects yet that this request depends on.
            self.cache().fresh().await.map_err(of_read)?;
        }
        let admitted = Admitted { subject, target, options: Options::Create(options), calls: &calls };
        // Only a decision that may wait is repeated, and needs the body again.
        let mut last = if may_match { None } else { Some(std::mem::take(&mut posted)) };
        let verdict = decided(|| {
            calls.begin("");
            let mut posted = last.take().unwrap_or_else(|| posted.clone());
            self.admission(request).admit_unstored(&admitted, &mut posted, None)?;
            Ok(posted)
        })
        .await;
        warnings.extend(calls.warnings());
        verdict
    }

    /// Admits a changed Scale. The scaled workload itself is not admitted again.
    ///
    /// # Errors
    /// The first refusal; or pending, if a webhook has to be called first.
    pub(super) fn admit_scale(
        &self,
        request: &Request,
        WriteCalls { options, calls }: WriteCalls<'_>,
        scale: &mut Value,
        old: &Value,
    ) -> Result<(), Undecided> {
        if !calls.may_match(Operation::Update, request.target.resource) {
            return Ok(());
        }
        calls.begin(meta::resource_version(old));
        let target = &request.target;
        let admitted = Admitted {
            subject: subject(&request.user, Operation::Update, target, &target.name),
            target,
            options: Options::Update(options),
            calls,
        };
        self.admission(request).admit_unstored(&admitted, scale, Some(old))
    }

    /// Admits a stream (exec, attach, port-forward, proxy) before it connects, as Kubernetes does. Webhooks get
    /// its options; their changes of them are dropped, and the stream opens with the client's.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn admit_stream(
        &self,
        user: &UserInfo,
        target: &Target,
        options: impl FnOnce() -> Value,
    ) -> Result<(), Status> {
        let calls = self.admission.calls(user);
        let may_match = calls.may_match(Operation::Connect, target.resource);
        let subject = subject(user, Operation::Connect, target, &target.name);
        if !may_match && !self.admission.reviews_unstored(&subject) {
            return Ok(());
        }
        self.cache().fresh().await.map_err(of_read)?;
        let options = options();
        let admitted = Admitted { subject, target, options: Options::None, calls: &calls };
        decided(|| {
            calls.begin("");
            self.admission.admit_unstored(&admitted, &mut options.clone(), None)
        })
        .await
    }
}

fn subject<'a>(user: &'a UserInfo, operation: Operation, target: &'a Target, name: &'a str) -> Subject<'a> {
    Subject {
        user,
        operation,
        resource: target.resource,
        subresource: target.subresource,
        namespace: &target.namespace,
        name,
        seed: 0,
    }
}

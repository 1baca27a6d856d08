//! Impersonation: `Impersonate-*` headers let a permitted caller act as another user. Constrained impersonation (KEP-5284) also asks
//! whether the caller may send this very request as that user.

mod checks;
mod extra;
mod headers;
mod metrics;
mod mode;
#[cfg(test)]
mod tests;

use crate::authz::RequestedAttributes;
use crate::expiring::Expiring;
pub use checks::Decide;
use checks::ModeChecks;
use http::{HeaderMap, Method, Uri};
use kstore_api::status::Status;
use kstore_metrics_text::Page;
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use metrics::ImpersonationMetrics;
pub use mode::ImpersonationMode;
use std::time::Duration;
use tokio::time::Instant;

/// Which modes a server serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServedModes {
    /// All modes: Kubernetes' default since 1.36.
    #[default]
    All,
    /// The verb `impersonate` alone, as with the gate `ConstrainedImpersonation` off.
    Legacy,
}

/// A user that a caller acts as, and the mode that allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    /// The user, with its implied groups.
    pub user: UserInfo,
    /// The mode.
    pub mode: ImpersonationMode,
}

/// Impersonation at one server: the modes that it serves, and the one that allowed each caller last.
pub struct Impersonation {
    served: ServedModes,
    /// The mode that allowed a caller last, by the caller's name. It is tried first, so that a caller of the verb `impersonate` costs
    /// no checks of the other modes.
    last: Expiring<String, ImpersonationMode>,
    metrics: ImpersonationMetrics,
}

/// How long the last mode of a caller is kept at most.
const LAST_MODE_TIME: Duration = Duration::from_secs(24 * 60 * 60);

impl Impersonation {
    /// Impersonation by these modes.
    pub fn new(served: ServedModes) -> Self {
        Self {
            served,
            last: Expiring::new(limits::IMPERSONATING_CALLERS),
            metrics: ImpersonationMetrics::default(),
        }
    }

    /// The user to impersonate; `None` without impersonation headers. `request` is the method and URL of what the caller asks for;
    /// without it the verb `impersonate` alone can allow.
    ///
    /// # Errors
    /// 403 if no mode allows it: the refusal of the first mode that was tried. 400 if headers are incomplete or not text.
    pub async fn identity(
        &self,
        caller: &UserInfo,
        headers: &HeaderMap,
        request: Option<(&Method, &Uri)>,
        decide: &impl Decide,
    ) -> Result<Option<Impersonated>, Status> {
        match headers::requested(headers)? {
            None => Ok(None),
            // Boxed: requests that do not impersonate do not carry the state of the checks.
            Some(wanted) => Box::pin(self.allowed(caller, wanted, request, decide)).await.map(Some),
        }
    }

    /// The wanted user, if a mode allows it.
    async fn allowed(
        &self,
        caller: &UserInfo,
        wanted: UserInfo,
        request: Option<(&Method, &Uri)>,
        decide: &impl Decide,
    ) -> Result<Impersonated, Status> {
        let began = Instant::now();
        let request = request.filter(|_| self.served == ServedModes::All);
        let request = request.map(|(method, uri)| RequestedAttributes::of(method, uri));
        let last = self.last.get(&caller.username);
        let others = ImpersonationMode::ALL.into_iter().filter(|mode| Some(*mode) != last);
        let can_apply = |mode: &ImpersonationMode| {
            (request.is_some() || !mode.is_constrained()) && mode.applies(caller, &wanted)
        };
        let mut first_refusal = None;
        for mode in last.into_iter().chain(others).filter(can_apply) {
            let requester = mode.requester(caller);
            let checks = ModeChecks { mode, requester: &requester, decide, metrics: &self.metrics };
            match checks.user(&wanted, request.as_ref()).await {
                Ok(user) => {
                    if last != Some(mode) {
                        self.last.put(caller.username.clone(), mode, LAST_MODE_TIME);
                    }
                    self.metrics.attempted(Some(mode), began.elapsed());
                    return Ok(Impersonated { user, mode });
                }
                Err(refused) => first_refusal = first_refusal.or(Some(refused)),
            }
        }
        Err(first_refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }

    /// Counts a request that was refused in the end, after this time. [`Impersonation::identity`] does not: its caller may ask again,
    /// by newer roles.
    pub fn count_refusal(&self, took: Duration) {
        self.metrics.attempted(None, took);
    }

    /// Writes the metrics.
    pub fn render_metrics(&self, page: &mut Page<'_>) {
        self.metrics.render(page);
    }
}

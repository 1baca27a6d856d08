//! [`Faults`]: fault injection for API requests. It selects faults, clients and probabilities; a seed decides, so test failures are
//! reproducible. [`crate::Cluster::nodes`] stops nodes.

mod injector;
mod request;
mod touch;

pub(crate) use injector::{FaultInjector, OWN_AGENT};
use kstore_nondet::Rng;
use request::Verb;
use std::time::Duration;

/// Faults to inject into API requests. Each probability, from 0 to 1, applies to every request that the fault can affect; by default all
/// are 0.
///
/// Faults affect requests for objects: REST requests in process and over the network, and kstore's gRPC API in process. They do not affect
/// discovery, health checks, OpenAPI, or gRPC over the network. Without [`Faults::client`], they affect every client except
/// [`crate::Cluster::client`], controllers, scheduler and nodes, which is usually the tested program only.
///
/// The nth request of a client with the same verb and path always gets the same faults, regardless of other requests. The path of a gRPC
/// call is its method.
///
/// ```
/// # #[cfg(feature = "kube")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kstore_testing::{Cluster, Faults};
/// use kube_client::{Api, api::PostParams};
///
/// let cluster = Cluster::builder().api_only().faults(Faults::seeded(7).conflicts(1.0)).start().await;
/// let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.kube());
/// let map = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#)?;
/// let created = config_maps.create(&PostParams::default(), &map).await?;
/// let error = config_maps.replace("a", &PostParams::default(), &created).await.unwrap_err();
/// assert!(error.to_string().contains("the object has been modified"));
/// cluster.set_faults(None);
/// // Another writer was faster, so the object is newer than the one that the update was made from.
/// let newer = config_maps.get("a").await?;
/// assert_ne!(newer.metadata.resource_version, created.metadata.resource_version);
/// config_maps.replace("a", &PostParams::default(), &newer).await?;
/// # cluster.stop().await;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "kube"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    seed: u64,
    /// Names of affected clients; empty: all clients except the cluster's own.
    clients: Vec<String>,
    conflicts: f64,
    throttled: f64,
    errors: f64,
    lost_answers: f64,
    gone: f64,
    cut: Timed,
    stale_lists: f64,
    slow_lists: Timed,
    slow: Timed,
}

/// A fault that happens after, or lasts for, a random time up to `most`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Timed {
    probability: f64,
    most: Duration,
}

impl Faults {
    /// No faults; `seed` decides those that are added.
    pub fn seeded(seed: u64) -> Self {
        let never = Timed::default();
        Self {
            seed,
            clients: Vec::new(),
            conflicts: 0.0,
            throttled: 0.0,
            errors: 0.0,
            lost_answers: 0.0,
            gone: 0.0,
            cut: never,
            stale_lists: 0.0,
            slow_lists: never,
            slow: never,
        }
    }

    /// Restricts the faults to clients with this name: the user name, or the part of the user agent before the first slash
    /// (`kube-scheduler`, `replicaset-controller`; see [`crate::Cluster::kube_named`]). Several calls add clients.
    #[must_use]
    pub fn client(mut self, name: &str) -> Self {
        self.clients.push(name.to_owned());
        self
    }

    /// Lets another writer be faster: before an update or patch that carries a `resourceVersion` is performed, annotation
    /// `lab.kstore.io/touch` of the object changes, so that the server refuses the write with 409 Conflict. Writes without a version
    /// are not affected.
    #[must_use]
    pub fn conflicts(self, probability: f64) -> Self {
        Self { conflicts: probability, ..self }
    }

    /// Refuses requests with 429 Too Many Requests and a `Retry-After` of one second.
    #[must_use]
    pub fn too_many_requests(self, probability: f64) -> Self {
        Self { throttled: probability, ..self }
    }

    /// Refuses requests with 500 Internal Server Error. Nothing is written.
    #[must_use]
    pub fn server_errors(self, probability: f64) -> Self {
        Self { errors: probability, ..self }
    }

    /// Performs writes but responds with 504 Timeout, so that the client does not know whether they succeeded.
    #[must_use]
    pub fn lost_answers(self, probability: f64) -> Self {
        Self { lost_answers: probability, ..self }
    }

    /// Ends watches at once with 410 Expired, so that the client lists again.
    #[must_use]
    pub fn expired_watches(self, probability: f64) -> Self {
        Self { gone: probability, ..self }
    }

    /// Ends watches after a random time of the cluster's clock up to `most`: half of them regularly, half by a broken connection.
    #[must_use]
    pub fn cut_watches(self, probability: f64, most: Duration) -> Self {
        Self { cut: Timed { probability, most }, ..self }
    }

    /// Returns an older revision for REST lists that accept any (`resourceVersion=0`), as another API server with a lagging cache would.
    /// Other lists stay current.
    #[must_use]
    pub fn stale_lists(self, probability: f64) -> Self {
        Self { stale_lists: probability, ..self }
    }

    /// Delays lists by a random time of the cluster's clock up to `most`; they return the state at the end of the delay.
    #[must_use]
    pub fn delayed_lists(self, probability: f64, most: Duration) -> Self {
        Self { slow_lists: Timed { probability, most }, ..self }
    }

    /// Delays requests, including lists and watches, by a random time of the cluster's clock up to `most` before they are served.
    #[must_use]
    pub fn slow_answers(self, probability: f64, most: Duration) -> Self {
        Self { slow: Timed { probability, most }, ..self }
    }

    /// Decides the faults of a client's `nth` request with this verb and path.
    fn decide(&self, client: &str, verb: Verb, path: &str, nth: u64) -> RequestFaults {
        let rng = Rng::seeded(self.seed).fork(&format!("{client} {verb:?} {path} {nth}"));
        // Every fault gets its random value even if its probability is 0, so that adding a fault does not change the others.
        let is_drawn = [(); 9].map(|()| rng.unit());
        let [conflict, throttled, error, lost, gone, cut, stale, slow_list, slow] = is_drawn;
        let time = |timed: Timed, draw: f64| {
            let share = rng.unit();
            (draw < timed.probability).then(|| timed.most.mul_f64(share))
        };
        let slow = time(self.slow, slow);
        let slow_list = time(self.slow_lists, slow_list).filter(|_| verb == Verb::List);
        let cut = time(self.cut, cut).filter(|_| verb == Verb::Watch);
        let refusal = if throttled < self.throttled {
            Some(Refusal::TooManyRequests)
        } else if error < self.errors {
            Some(Refusal::InternalError)
        } else if verb == Verb::Watch && gone < self.gone {
            Some(Refusal::Expired)
        } else {
            None
        };
        RequestFaults {
            delay: slow.unwrap_or_default() + slow_list.unwrap_or_default(),
            touches: refusal.is_none() && verb == Verb::Change && conflict < self.conflicts,
            refusal,
            loses_answer: verb.is_write() && lost < self.lost_answers,
            stale_by: (verb == Verb::List && stale < self.stale_lists)
                .then(|| 1 + rng.below(STALE_REVISIONS)),
            cut: cut.map(|after| Cut { after, breaks: rng.unit() < 0.5 }),
        }
    }
}

/// Most revisions by which a stale list lags: few, so that it is noticeable in tests with few writes.
const STALE_REVISIONS: u64 = 20;

/// The faults of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RequestFaults {
    /// Delay before the request is served or refused.
    delay: Duration,
    refusal: Option<Refusal>,
    /// Whether another writer is faster.
    touches: bool,
    loses_answer: bool,
    /// Number of revisions by which a list lags, if it accepts that.
    stale_by: Option<u64>,
    cut: Option<Cut>,
}

/// An injected end of a watch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    after: Duration,
    /// Whether the watch ends as a broken connection instead of regularly.
    breaks: bool,
}

/// An error response that replaces the server's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    TooManyRequests,
    InternalError,
    Expired,
    /// 504 Timeout, although the write was performed.
    Timeout,
}

/// Number of requests that each fault hit since the faults were set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounts {
    /// Updates and patches before which another writer changed the object, so that they were refused with 409.
    pub conflicts: u64,
    /// Requests refused with 429.
    pub too_many_requests: u64,
    /// Requests refused with 500.
    pub server_errors: u64,
    /// Writes that were performed and got a 504 response.
    pub lost_answers: u64,
    /// Watches refused with 410.
    pub expired_watches: u64,
    /// Watches selected to end early.
    pub cut_watches: u64,
    /// Lists selected to return an older revision.
    pub stale_lists: u64,
    /// Requests that were delayed.
    pub delayed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(faults: &Faults) -> Vec<RequestFaults> {
        let requests =
            (0..2000).map(|nth| ([Verb::Change, Verb::Watch, Verb::List][nth % 3], nth as u64 / 3));
        requests.map(|(verb, nth)| faults.decide("operator", verb, "/api/v1/pods", nth)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_others_differ() {
        let faults = |seed| Faults::seeded(seed).conflicts(0.3).cut_watches(0.5, Duration::from_secs(9));
        assert_eq!(all(&faults(7)), all(&faults(7)));
        assert_ne!(all(&faults(7)), all(&faults(8)));
        let other = faults(7).decide("other", Verb::Watch, "/api/v1/pods", 0);
        let differs =
            (0..20).any(|nth| faults(7).decide("operator", Verb::Watch, "/api/v1/pods", nth) != other);
        assert!(differs);
    }

    #[test]
    fn faults_have_their_probability_and_are_independent_of_each_other() {
        let conflicts =
            |requests: &[RequestFaults]| requests.iter().map(|injected| injected.touches).collect::<Vec<_>>();
        let alone = all(&Faults::seeded(1).conflicts(0.3));
        let count = conflicts(&alone).iter().filter(|hit| **hit).count();
        assert!((150..250).contains(&count), "{count} of 667 changes");
        let more =
            all(&Faults::seeded(1).conflicts(0.3).slow_answers(0.9, Duration::from_secs(1)).stale_lists(0.5));
        assert_eq!(conflicts(&alone), conflicts(&more));
        assert!(alone.iter().all(|injected| injected.delay.is_zero()
            && injected.cut.is_none()
            && injected.stale_by.is_none()));
    }
}

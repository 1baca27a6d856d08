//! Certificates of projected volumes (`podCertificate`). A task for each source of a volume requests a certificate as the pod's node, waits
//! for the signer, and requests another before the first expires. As in a kubelet, nothing of it outlives the process: a new one requests
//! new certificates. What is requested and what an answer means is in `pod_certificate`.

use super::Manager;
use super::follow::Report;
use super::sources::SourceOrder;
use crate::limits::{CERTIFICATE_JITTER, CERTIFICATE_OVERDUE, CERTIFICATE_RETRY_BASE, CERTIFICATE_RETRY_MAX};
use crate::pod::PodEvent;
use crate::pod_certificate::{
    self, Answer, CredentialBundle, IssuedCertificate, RequestStatus, RequesterUids,
};
use crate::pod_object::source::{SourceKey, SourceKind, SourceState};
use crate::stream::Disks;
use k8s_openapi::api::core::v1::{Node, Pod, PodCertificateProjection, ServiceAccount};
use kstore_api::lenient;
use kstore_client::{ApiError, Client, Gvr, ProjectedMeta, WatchParams};
use kstore_container_sim::time::{between, later};
use kstore_informer::{Builder, Informer, Key, Object, Revision};
use kstore_nondet::{Backoff, Clock, Rng};
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

fn requests() -> Gvr {
    Gvr::new("certificates.k8s.io", "v1", "podcertificaterequests")
}

/// A source of a pod's projected volume that needs certificates while the pod is on its node.
pub(crate) struct CertificateOrder {
    pub(super) key: SourceKey,
    pod: Key,
    uid: Arc<str>,
    pub(super) node: String,
    volume: String,
    /// Position of the source in its volume.
    index: usize,
    disks: Arc<Disks>,
}

impl Manager {
    /// The certificate that an order asks for, if it asks for one of a pod that still exists.
    pub(crate) fn certificate_order(&self, order: &SourceOrder) -> Option<CertificateOrder> {
        let SourceOrder::Follow(key) = order else { return None };
        if key.kind != SourceKind::PodCertificate {
            return None;
        }
        let entry = self.pods.get(self.references.pods_of(key).next()?)?;
        let object = entry.object();
        let need = object.spec.volumes.needs.iter().find(|need| need.key(object) == *key)?;
        Some(CertificateOrder {
            key: key.clone(),
            pod: entry.key(),
            uid: Arc::clone(&entry.uid),
            node: entry.node().to_owned(),
            volume: need.volume.clone(),
            index: need.name.parse().ok()?,
            disks: entry.disks(),
        })
    }

    /// Records an event of the pods that refer to an object.
    pub(crate) fn source_event(&mut self, source: &SourceKey, event: &PodEvent) {
        let pods: Vec<Key> = self.references.pods_of(source).cloned().collect();
        for pod in pods {
            self.pod_notice(&pod, event.clone());
        }
    }
}

/// The task that keeps a source supplied with certificates.
pub(super) struct CertificateTask {
    pub(super) order: CertificateOrder,
    /// The client of the pod's node, which creates the requests.
    pub(super) node: Client,
    /// The client of the simulation, which watches them.
    pub(super) watcher: Client,
    pub(super) clock: Clock,
    pub(super) rng: Rng,
    /// Bounds what tasks read and create at the same time.
    pub(super) permits: Arc<Semaphore>,
    pub(super) reports: mpsc::Sender<Report>,
    pub(super) stop: CancellationToken,
}

/// A request that the API server has, with the key that it is for.
struct OpenRequest {
    name: String,
    private_key: String,
}

/// The end of a request.
enum Obtained {
    /// A signer issued a certificate for the key.
    Certificate { private_key: String, issued: IssuedCertificate },
    /// The pod gets none: the event that says so, and why the volume is not mounted.
    Refused { event: PodEvent, mount_error: String },
}

/// Why a request could not be created.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The pod is gone or another one of its name is there: the manager ends the task soon.
    #[error("the pod has no such volume any more")]
    PodChanged,
    #[error("{0}")]
    UnsupportedKey(String),
}

impl CertificateTask {
    /// Requests certificates until a signer refuses one, or the caller stops the task.
    pub(super) async fn run(self) {
        self.report(SourceState::Missing, None).await;
        let mut held = None;
        loop {
            let obtained = tokio::select! {
                biased;
                obtained = self.obtain() => obtained,
                never = self.warn_if_late(held.as_ref()) => match never {},
            };
            match obtained {
                Obtained::Certificate { private_key, issued } => {
                    let bundle = CredentialBundle { key: private_key, chain: issued.chain.clone() };
                    self.order.disks.keep_certificate((self.order.volume.clone(), self.order.index), bundle);
                    self.report(SourceState::Present([].into()), None).await;
                    let refresh_at = later(issued.refresh_at, self.rng.scaled(CERTIFICATE_JITTER, 0.0..1.0));
                    tokio::time::sleep(between(self.clock.now(), refresh_at)).await;
                    held = Some(IssuedCertificate { refresh_at, ..issued });
                }
                Obtained::Refused { event, mount_error } => {
                    return self.report(SourceState::Refused(mount_error), Some(event)).await;
                }
            }
        }
    }

    async fn report(&self, state: SourceState, event: Option<PodEvent>) {
        // Without a receiver the simulation ends, and this task with it.
        let _ = self.reports.send(Report { key: self.order.key.clone(), state, event }).await;
    }

    /// Creates a request, and another one whenever it is deleted without an answer; returns the answer.
    async fn obtain(&self) -> Obtained {
        let mut waits = Backoff::doubling(CERTIFICATE_RETRY_BASE, CERTIFICATE_RETRY_MAX).waits();
        loop {
            match self.create_request().await {
                Ok(OpenRequest { name, private_key }) => match self.answer(&name).await {
                    Some(Answer::Issued(issued)) => return Obtained::Certificate { private_key, issued },
                    Some(Answer::Refused(refused)) => {
                        let message = refused.event(self.order.pod.namespace(), &name);
                        let event = PodEvent::warning(refused.kind.clone(), message);
                        return Obtained::Refused { event, mount_error: refused.mount_error() };
                    }
                    None => {}
                },
                Err(RequestError::UnsupportedKey(why)) => {
                    let event = PodEvent::warning("Failed", why.clone());
                    return Obtained::Refused { event, mount_error: why };
                }
                Err(error) => tracing::debug!(pod = %self.order.pod, %error, "no request for a certificate"),
            }
            tokio::time::sleep(self.rng.scaled(waits.advance(), 0.75..1.0)).await;
        }
    }

    async fn create_request(&self) -> Result<OpenRequest, RequestError> {
        let _permit = self.permits.acquire().await;
        let (namespace, node) = (self.order.pod.namespace(), &self.node);
        let pod = node.api::<Pod>().get(namespace, self.order.pod.name()).await?;
        let source = self.source(&pod).ok_or(RequestError::PodChanged)?;
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        let account =
            node.api::<ServiceAccount>().get(namespace, account.unwrap_or("default")).await?.metadata.uid;
        let node_uid = node.api::<Node>().get("", &self.order.node).await?.metadata.uid;
        let made = pod_certificate::generate(&source.key_type, &self.rng);
        let made = made.map_err(RequestError::UnsupportedKey)?;
        let uids = RequesterUids {
            service_account: account.as_deref().unwrap_or_default(),
            node: node_uid.as_deref().unwrap_or_default(),
        };
        let request = pod_certificate::request(&pod, source, uids, &made.request);
        let created = node.dynamic(requests()).create(namespace, &request).await?;
        let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(OpenRequest { name, private_key: made.key })
    }

    fn source<'p>(&self, pod: &'p Pod) -> Option<&'p PodCertificateProjection> {
        if pod.metadata.uid.as_deref() != Some(&*self.order.uid) {
            return None;
        }
        let mut volumes = pod.spec.as_ref()?.volumes.iter().flatten();
        let volume = volumes.find(|volume| volume.name == self.order.volume)?;
        let sources = volume.projected.as_ref()?.sources.as_ref()?;
        sources.get(self.order.index)?.pod_certificate.as_ref()
    }

    /// Waits for the answer to a request; `None` if the request is deleted without one.
    async fn answer(&self, name: &str) -> Option<Answer> {
        let key = Key::new(self.order.pod.namespace(), name);
        let params = WatchParams::default().ns(key.namespace()).name(key.name());
        let source = self.watcher.dynamic(requests()).project(params, RequestRecord::decode);
        let named = format!("kubelet podcertificaterequest {key}");
        let (informer, driver) = Builder::new(source).name(&named).rng(&self.rng).build(&self.stop);
        tokio::select! {
            biased;
            answer = answered(&informer, &key) => answer,
            () = driver => None,
        }
    }

    /// Reports once that a certificate should have been replaced, and once that it has expired.
    async fn warn_if_late(&self, held: Option<&IssuedCertificate>) -> Infallible {
        let Some(held) = held else { return std::future::pending().await };
        let warnings = [
            (
                later(held.refresh_at, CERTIFICATE_OVERDUE),
                "CertificateOverdueForRefresh",
                "PodCertificate refresh overdue",
            ),
            (held.not_after, "CertificateExpired", "PodCertificate expired"),
        ];
        for (at, reason, message) in warnings {
            tokio::time::sleep(between(self.clock.now(), at)).await;
            let event = PodEvent::warning(reason, message.to_owned());
            self.report(SourceState::Present([].into()), Some(event)).await;
        }
        std::future::pending().await
    }
}

/// Waits until a request is answered; `None` if it is gone, or the informer has ended.
async fn answered(informer: &Informer<RequestRecord>, key: &Key) -> Option<Answer> {
    informer.synced().await.ok()?;
    let mut changes = informer.subscribe();
    loop {
        let answer = informer.get(key)?.status.answer();
        if answer.is_some() {
            return answer;
        }
        changes.next().await?;
    }
}

/// A PodCertificateRequest: its identity and its status.
#[derive(Debug)]
struct RequestRecord {
    key: Key,
    uid: String,
    revision: Revision,
    status: RequestStatus,
}

impl RequestRecord {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct RequestDoc {
            metadata: ProjectedMeta,
            #[serde(default)]
            status: RequestStatus,
        }
        let RequestDoc { metadata, status } = lenient::from_slice(json)?;
        let (key, revision) = (metadata.key(), metadata.revision());
        Ok(Self { key, uid: metadata.uid, revision, status })
    }
}

impl Object for RequestRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

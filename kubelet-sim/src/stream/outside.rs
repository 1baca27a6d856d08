//! The way of programs of this machine out of the cluster, as far as [`Egress`](crate::egress::Egress) and NetworkPolicies open it:
//! connections, datagrams and names. The first attempts that are refused are told in the log and by an Event of the pod.

use super::host_network::FabricStream;
use super::network::{Boxed, Connection, PodNetwork, Transport, vanish};
use super::{ContainerWarning, ManagerMessage, Snapshot};
use crate::dns::{self, DnsName};
use crate::dns_message::{DnsMessage, question_about, records_of};
use crate::egress::EgressTarget;
use crate::limits::REFUSALS_TOLD;
use crate::service::ZONE;
use kstore_container_sim::{DnsAnswer, DnsQuestion, NetworkFailure, RecordKind};
use kstore_fabric::Host;
use kstore_host_runtime::gateway::{Datagram, Unreached};
use kstore_host_runtime::outside::{self, OutsideFlows};
use kstore_informer::Key;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

/// Reason of the Event for what is refused.
const REFUSED: &str = "EgressRefused";

/// What a pod's programs have open outside of the cluster.
pub(super) struct OutsideAccess {
    pod: Key,
    uid: String,
    flows: OutsideFlows,
    /// Addresses and names that were refused, as they were told.
    refused: Mutex<BTreeSet<String>>,
}

impl OutsideAccess {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let meta = &snapshot.record.pod.metadata;
        let (pod, uid) = (Key::new(&meta.namespace, &meta.name), meta.uid.clone());
        Self { pod, uid, flows: OutsideFlows::default(), refused: Mutex::default() }
    }

    /// Whether a refusal is to be told: it is the first of its kind, and few were told before.
    fn is_new(&self, what: &str) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.len() < REFUSALS_TOLD && refused.insert(what.to_owned())
    }
}

impl PodNetwork {
    /// Connects to an address outside of the cluster, perhaps one of a Service's endpoints. `asked` is the address that the program has
    /// asked for.
    pub(super) async fn connect_outside(
        &self,
        host: &Host,
        (asked, to): (SocketAddr, SocketAddr),
    ) -> Result<Connection, NetworkFailure> {
        let Some(target) = self.reached_outside(to, Transport::Tcp).await? else {
            return Err(NetworkFailure::NoRoute(to.ip()));
        };
        let socket = match outside::connect(target).await {
            Ok(socket) => socket,
            Err(Unreached::Refused) => return Err(NetworkFailure::Refused(to.ip())),
            Err(Unreached::Vanished) => return Err(NetworkFailure::TimedOut(to.ip())),
            Err(Unreached::NoRoute) => return Err(NetworkFailure::NoRoute(to.ip())),
        };
        let (stream, end) = host.open(asked).map_err(|_| NetworkFailure::Exhausted)?;
        let serving: Boxed<()> = Box::pin(outside::relay(socket, Box::new(FabricStream(end))));
        Ok(Connection { stream, serving: Some(serving) })
    }

    /// Sends on a datagram in the flow that it belongs to; returns its bytes if there is none.
    pub(super) fn pass_in_flow(&self, ends: (SocketAddr, SocketAddr), bytes: Vec<u8>) -> Option<Vec<u8>> {
        match &self.outside {
            Some(outside) => outside.flows.pass(ends, bytes).err(),
            None => Some(bytes),
        }
    }

    /// Sends on the first datagram of a flow to `endpoint`, outside of the cluster. That it is not received is not told.
    pub(super) async fn pass_outside(&self, datagram: Datagram, endpoint: SocketAddr) {
        let Datagram { from, to, bytes, answers } = datagram;
        let Some(outside) = &self.outside else { return };
        if let Ok(Some(target)) = self.reached_outside(endpoint, Transport::Udp).await {
            outside.flows.open((from, to), target, bytes, answers);
        }
    }

    /// Where this machine connects to for an address outside of the cluster; `None` if it is not reached.
    ///
    /// # Errors
    /// A NetworkPolicy lets nothing through: packets vanish.
    async fn reached_outside(
        &self,
        to: SocketAddr,
        transport: Transport,
    ) -> Result<Option<SocketAddr>, NetworkFailure> {
        if self.outside.is_none() {
            return Ok(None);
        }
        if !Box::pin(self.is_let_through((to, transport), None)).await {
            return Err(vanish(to.ip()).await);
        }
        match self.streams.egress.target(to) {
            Some(EgressTarget::HostService(listening)) => Ok(Some(listening)),
            Some(EgressTarget::Outside(to)) if !outside::is_own_address(to.ip()) => Ok(Some(to)),
            Some(EgressTarget::Outside(to)) => {
                self.tell(
                    &to.to_string(),
                    "it is an address of this machine, of which --egress-host opens single ports",
                );
                Ok(None)
            }
            None => {
                let text = format!("{to} over {}", transport.text());
                self.tell(&text, "it is outside of the cluster, and no --egress of the server opens it");
                Ok(None)
            }
        }
    }

    /// Tells that something outside of the cluster is not reached, once for each such thing.
    fn tell(&self, what: &str, why: &str) {
        let Some(outside) = self.outside.as_ref().filter(|outside| outside.is_new(what)) else { return };
        let message = format!("A program was refused {what}: {why}");
        tracing::info!(pod = %outside.pod, "{message}");
        let (pod, uid) = (outside.pod.clone(), outside.uid.clone());
        let warning = ContainerWarning { pod, uid, index: None, reason: REFUSED, message };
        // The log has it in any case.
        let _ = self.streams.messages.try_send(ManagerMessage::Warned(Box::new(warning)));
    }

    /// The bytes of an answer to a question about a name; `None` if there is none.
    pub(super) async fn answer_question(&self, bytes: &[u8], is_udp: bool) -> Option<Vec<u8>> {
        let message = match DnsMessage::read(bytes) {
            Ok(message) => message,
            Err(refusal) => return refusal,
        };
        let question = message.question();
        let egress = &self.streams.egress;
        if let Some(service) = egress.host_service(&question.name) {
            let records = dns::addresses(&question.name, question.kind, service);
            return message.answer(&DnsAnswer { exists: service.is_some(), records }, is_udp);
        }
        if is_outside(&question.name) {
            if egress.has_names() {
                return outside::ask(bytes, self.number(), is_udp).await.or_else(|| message.failed());
            }
            // Resolvers ask for the names of Services without their zone, too.
            if question.name.contains('.') {
                let why = "names outside of the cluster need an --egress of the server";
                self.tell(&format!("the name {}", question.name), why);
            }
        }
        let answer = Box::pin(self.streams.lookup(&question)).await;
        if !answer.exists
            && let Some(DnsName::Reverse(address)) = DnsName::of(&question.name)
            && egress.has_address(address)
        {
            return outside::ask(bytes, self.number(), is_udp).await.or_else(|| message.failed());
        }
        let answer = self.with_alias(answer, &question).await;
        message.answer(&answer, is_udp)
    }

    /// An answer whose last alias leads out of the cluster, with the addresses that it leads to.
    async fn with_alias(&self, mut answer: DnsAnswer, question: &DnsQuestion) -> DnsAnswer {
        let is_address = matches!(question.kind, RecordKind::A | RecordKind::Aaaa);
        let Some(last) = answer.records.last().filter(|last| is_address && last.kind == RecordKind::Cname)
        else {
            return answer;
        };
        let name = last.value.trim_end_matches('.').to_owned();
        if let Some(service) = self.streams.egress.host_service(&name) {
            answer.records.extend(dns::addresses(&name, question.kind, service));
        } else if self.streams.egress.has_names()
            && is_outside(&name)
            && let Some(asked) = question_about(&name, question.kind, 0)
            && let Some(found) = outside::ask(&asked, self.number(), true).await
        {
            answer.records.extend(records_of(&found));
        }
        answer
    }

    /// A number for a question, which senders of forged answers cannot guess.
    fn number(&self) -> u16 {
        let mut bytes = [0; 2];
        self.streams.rng.fill_secret(&mut bytes);
        u16::from_be_bytes(bytes)
    }
}

/// Whether a whole name is one that the cluster does not decide about. Those of addresses may be of the cluster.
fn is_outside(name: &str) -> bool {
    let is_below =
        |zone: &str| name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    ![ZONE, "in-addr.arpa", "ip6.arpa"].into_iter().any(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_cluster_and_of_addresses_are_not_asked_elsewhere() {
        for (name, expected) in [
            ("cluster.local", false),
            ("web.ns.svc.cluster.local", false),
            ("example.com.ns.svc.cluster.local", false),
            ("mycluster.local", true),
            ("example.com", true),
            ("3.2.1.10.in-addr.arpa", false),
        ] {
            assert_eq!(is_outside(name), expected, "{name}");
        }
    }
}

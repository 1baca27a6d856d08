//! Questions and answers of the cluster's DNS as the bytes that resolvers of programs send and read. Pure.

use crate::service::ZONE;
use kstore_container_sim::{DnsAnswer, DnsQuestion, DnsRecord, RecordKind};
use simple_dns::rdata::{A, AAAA, CNAME, OPT, PTR, RData, SOA, SRV};
use simple_dns::{
    CLASS, Name, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE, header_buffer,
};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of an answer over UDP to a resolver that does not name a larger size.
const USUAL_SIZE: u16 = 512;
/// Bytes of an answer over UDP at most: such a datagram is one packet of a program's network.
const LARGEST: u16 = 8192;
/// How many seconds it may be kept that there is no such record.
const NEGATIVE: u32 = 30;

/// A question of a resolver, with what its answer repeats.
#[derive(Debug)]
pub(crate) struct DnsMessage<'a> {
    packet: Packet<'a>,
}

impl<'a> DnsMessage<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// It is no question: the answer that says so, or `None` if it has none.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Option<Vec<u8>>> {
        let Ok(packet) = Packet::parse(bytes) else {
            let is_answer = header_buffer::has_flags(bytes, PacketFlag::RESPONSE).unwrap_or(true);
            let number = header_buffer::id(bytes).ok().filter(|_| !is_answer);
            return Err(number.and_then(|number| refusal(number, RCODE::FormatError)));
        };
        if packet.has_flags(PacketFlag::RESPONSE) {
            return Err(None);
        }
        match packet.questions.len() {
            1 => Ok(Self { packet }),
            _ => Err(refusal(packet.id(), RCODE::FormatError)),
        }
    }

    /// What is asked. Of kinds that the cluster has no records of it is only told whether there is the name.
    pub(crate) fn question(&self) -> DnsQuestion {
        let name = self.packet.questions[0].qname.to_string().to_ascii_lowercase();
        DnsQuestion { name, kind: self.kind().unwrap_or(RecordKind::A) }
    }

    fn kind(&self) -> Option<RecordKind> {
        match self.packet.questions[0].qtype {
            QTYPE::TYPE(TYPE::A) => Some(RecordKind::A),
            QTYPE::TYPE(TYPE::AAAA) => Some(RecordKind::Aaaa),
            QTYPE::TYPE(TYPE::CNAME) => Some(RecordKind::Cname),
            QTYPE::TYPE(TYPE::PTR) => Some(RecordKind::Ptr),
            QTYPE::TYPE(TYPE::SRV) => Some(RecordKind::Srv),
            _ => None,
        }
    }

    /// The answer that the name could not be looked up.
    pub(crate) fn failed(&self) -> Option<Vec<u8>> {
        let mut reply = self.reply(&[], true)?;
        reply.name_servers.clear();
        *reply.rcode_mut() = RCODE::ServerFailure;
        reply.build_bytes_vec_compressed().ok()
    }

    /// The bytes of an answer. Over UDP one that is too long says so, and has no records.
    pub(crate) fn answer(&self, answer: &DnsAnswer, is_udp: bool) -> Option<Vec<u8>> {
        let known = self.kind().is_some();
        let records: Vec<&DnsRecord> = answer.records.iter().filter(|_| known).collect();
        let own = self.packet.opt().map_or(USUAL_SIZE, |opt| opt.udp_packet_size);
        let size = if is_udp { own.clamp(USUAL_SIZE, LARGEST) } else { u16::MAX };
        let whole = self.reply(&records, answer.exists)?.build_bytes_vec_compressed().ok()?;
        if whole.len() <= usize::from(size) {
            return Some(whole);
        }
        let mut cut = self.reply(&[], true)?;
        cut.name_servers.clear();
        cut.set_flags(PacketFlag::TRUNCATION);
        cut.build_bytes_vec_compressed().ok()
    }

    fn reply(&self, records: &[&DnsRecord], exists: bool) -> Option<Packet<'_>> {
        let question = &self.packet.questions[0];
        let mut reply = Packet::new_reply(self.packet.id());
        let name = question.qname.to_string().to_ascii_lowercase();
        let is_own = [ZONE, "in-addr.arpa", "ip6.arpa"].iter().any(|zone| name.ends_with(zone));
        if is_own {
            reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        }
        if self.packet.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
        }
        if !exists {
            *reply.rcode_mut() = RCODE::NameError;
        }
        reply.questions.push(question.clone());
        for record in records {
            reply.answers.push(resource(record)?);
        }
        if records.is_empty() && is_own {
            reply.name_servers.push(start_of_authority()?);
        }
        if self.packet.opt().is_some() {
            *reply.opt_mut() = Some(OPT { opt_codes: Vec::new(), udp_packet_size: LARGEST, version: 0 });
        }
        Some(reply)
    }
}

/// The bytes of a question about a whole name, with this number; `None` if it is no name.
pub(crate) fn question_about(name: &str, kind: RecordKind, number: u16) -> Option<Vec<u8>> {
    let kind = match kind {
        RecordKind::A => TYPE::A,
        RecordKind::Aaaa => TYPE::AAAA,
        RecordKind::Cname => TYPE::CNAME,
        RecordKind::Ptr => TYPE::PTR,
        RecordKind::Srv => TYPE::SRV,
    };
    let mut packet = Packet::new_query(number);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(owned(name)?, kind.into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().ok()
}

/// The addresses and aliases in the bytes of an answer; none if it is no answer.
pub(crate) fn records_of(answer: &[u8]) -> Vec<DnsRecord> {
    let Ok(packet) = Packet::parse(answer) else { return Vec::new() };
    let record = |record: &ResourceRecord<'_>| {
        let (kind, value) = match &record.rdata {
            RData::A(A { address }) => (RecordKind::A, Ipv4Addr::from(*address).to_string()),
            RData::AAAA(AAAA { address }) => (RecordKind::Aaaa, Ipv6Addr::from(*address).to_string()),
            RData::CNAME(CNAME(to)) => (RecordKind::Cname, format!("{to}.")),
            _ => return None,
        };
        Some(DnsRecord { name: record.name.to_string(), kind, value, ttl: record.ttl })
    };
    packet.answers.iter().filter_map(record).collect()
}

/// The record that says how long it may be kept that there is none.
fn start_of_authority() -> Option<ResourceRecord<'static>> {
    let soa = SOA {
        mname: owned("ns.dns.cluster.local")?,
        rname: owned("hostmaster.cluster.local")?,
        serial: 1,
        refresh: 7200,
        retry: 1800,
        expire: 86_400,
        minimum: NEGATIVE,
    };
    Some(ResourceRecord::new(owned(ZONE)?, CLASS::IN, NEGATIVE, RData::SOA(soa)))
}

/// A record as a message has it; `None` if its value is not of its kind.
fn resource(record: &DnsRecord) -> Option<ResourceRecord<'static>> {
    let value = record.value.as_str();
    let data = match record.kind {
        RecordKind::A => RData::A(A { address: value.parse::<Ipv4Addr>().ok()?.into() }),
        RecordKind::Aaaa => RData::AAAA(AAAA { address: value.parse::<Ipv6Addr>().ok()?.into() }),
        RecordKind::Cname => RData::CNAME(CNAME(owned(value)?)),
        RecordKind::Ptr => RData::PTR(PTR(owned(value)?)),
        RecordKind::Srv => {
            let mut words = value.split_whitespace();
            let mut number = || words.next()?.parse().ok();
            let (priority, weight, port) = (number()?, number()?, number()?);
            RData::SRV(SRV { priority, weight, port, target: owned(words.next()?)? })
        }
    };
    Some(ResourceRecord::new(owned(&record.name)?, CLASS::IN, record.ttl, data))
}

fn owned(name: &str) -> Option<Name<'static>> {
    Name::new(name.trim_end_matches('.')).ok().map(Name::into_owned)
}

/// An answer without records.
fn refusal(number: u16, code: RCODE) -> Option<Vec<u8>> {
    let mut reply = Packet::new_reply(number);
    *reply.rcode_mut() = code;
    reply.build_bytes_vec().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(name: &str, kind: TYPE) -> Vec<u8> {
        let mut packet = Packet::new_query(7);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(Question::new(Name::new(name).unwrap(), kind.into(), CLASS::IN.into(), false));
        packet.build_bytes_vec().unwrap()
    }

    fn record(kind: RecordKind, value: &str) -> DnsRecord {
        DnsRecord { name: "web.ns.svc.cluster.local".to_owned(), kind, value: value.to_owned(), ttl: 30 }
    }

    #[test]
    fn answers_repeat_the_question_as_it_was_spelled_and_have_its_records() {
        let bytes = asked("Web.ns.svc.cluster.LOCAL", TYPE::A);
        let message = DnsMessage::read(&bytes).unwrap();
        let question = message.question();
        assert_eq!((question.name.as_str(), question.kind), ("web.ns.svc.cluster.local", RecordKind::A));
        let records = vec![record(RecordKind::A, "10.96.0.7")];
        let answer = message.answer(&DnsAnswer { exists: true, records }, true).unwrap();
        let reply = Packet::parse(&answer).unwrap();
        assert_eq!((reply.id(), reply.rcode()), (7, RCODE::NoError));
        assert!(reply.has_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RESPONSE));
        assert_eq!(reply.questions[0].qname.to_string(), "Web.ns.svc.cluster.LOCAL");
        let RData::A(A { address }) = &reply.answers[0].rdata else { panic!("{reply:?}") };
        assert_eq!(Ipv4Addr::from(*address), Ipv4Addr::new(10, 96, 0, 7));
    }

    #[test]
    fn every_kind_of_record_is_written_and_missing_names_have_their_code() {
        for (kind, code, value) in [
            (RecordKind::Aaaa, TYPE::AAAA, "fd00::7"),
            (RecordKind::Cname, TYPE::CNAME, "example.com."),
            (RecordKind::Ptr, TYPE::PTR, "web.ns.svc.cluster.local."),
            (RecordKind::Srv, TYPE::SRV, "0 100 80 web.ns.svc.cluster.local."),
        ] {
            let bytes = asked("web.ns.svc.cluster.local", code);
            let message = DnsMessage::read(&bytes).unwrap();
            assert_eq!(message.question().kind, kind);
            let answer = DnsAnswer { exists: true, records: vec![record(kind, value)] };
            let answer = message.answer(&answer, true).unwrap();
            assert_eq!(Packet::parse(&answer).unwrap().answers.len(), 1, "{kind:?}");
            let none = message.answer(&DnsAnswer::default(), true).unwrap();
            let none = Packet::parse(&none).unwrap();
            assert_eq!((none.rcode(), none.name_servers.len()), (RCODE::NameError, 1));
        }
    }

    #[test]
    fn an_answer_that_is_too_long_for_a_datagram_is_read_over_tcp() {
        let bytes = asked("web.ns.svc.cluster.local", TYPE::A);
        let message = DnsMessage::read(&bytes).unwrap();
        let records = (0..100).map(|number| record(RecordKind::A, &format!("10.0.0.{number}"))).collect();
        let answer = DnsAnswer { exists: true, records };
        let cut = message.answer(&answer, true).unwrap();
        let cut = Packet::parse(&cut).unwrap();
        assert!(cut.has_flags(PacketFlag::TRUNCATION) && cut.answers.is_empty());
        let whole = message.answer(&answer, false).unwrap();
        assert_eq!(Packet::parse(&whole).unwrap().answers.len(), 100);
    }

    #[test]
    fn records_of_other_name_servers_are_read_back_as_they_are_asked_for() {
        let bytes = question_about("Db.example.com", RecordKind::A, 9).unwrap();
        let message = DnsMessage::read(&bytes).unwrap();
        assert_eq!(message.question().name, "db.example.com");
        let alias = record(RecordKind::Cname, "other.example.com.");
        let records =
            vec![alias, record(RecordKind::A, "192.0.2.7"), record(RecordKind::Aaaa, "2001:db8::7")];
        let answer = message.answer(&DnsAnswer { exists: true, records: records.clone() }, true).unwrap();
        assert_eq!(records_of(&answer), records);
        let failed = message.failed().unwrap();
        assert_eq!(Packet::parse(&failed).unwrap().rcode(), RCODE::ServerFailure);
        assert!(records_of(&failed).is_empty() && records_of(&answer[..20]).is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_not_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            match DnsMessage::read(&bytes) {
                Ok(message) => drop((message.question(), message.answer(&DnsAnswer::default(), true))),
                Err(Some(refusal)) => prop_assert!(Packet::parse(&refusal).is_ok()),
                Err(None) => {}
            }
        }
    }
}

//! Packets of IP that a gateway reads and makes by itself: what a packet asks for, refusals, and datagrams. Pure.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, Icmpv6DstUnreachable, Icmpv6Packet, Icmpv6Repr,
    IpProtocol, IpRepr, Ipv4Packet, Ipv6Packet, TcpControl, TcpPacket, TcpRepr, UdpPacket, UdpRepr,
};
use std::net::{IpAddr, SocketAddr};

/// The most hops of a packet that a gateway makes.
const HOPS: u8 = 64;
/// Bytes of a refused packet, behind its IP header, that a message about it has: ports and the number of a segment.
const QUOTED: usize = 8;

/// The two ends of a flow of packets: that of the pod's program, and the other.
pub(super) type FlowKey = (SocketAddr, SocketAddr);

/// What a packet of a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramPacket {
    /// The first packet of a connection, with its sequence number.
    Opening(FlowKey, i32),
    /// Another packet of a connection.
    Segment,
    /// A datagram and its bytes.
    Datagram(FlowKey, Vec<u8>),
    /// Anything else, which is dropped.
    Other,
}

/// What a packet asks for.
pub(super) fn parse(packet: &[u8]) -> ProgramPacket {
    parsed(packet).unwrap_or(ProgramPacket::Other)
}

fn parsed(packet: &[u8]) -> Option<ProgramPacket> {
    let (from, to, protocol, payload): (IpAddr, IpAddr, _, _) = match packet.first()? >> 4 {
        4 => {
            let ip = Ipv4Packet::new_checked(packet).ok()?;
            if ip.more_frags() || ip.frag_offset() != 0 {
                return None;
            }
            (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), ip.payload())
        }
        6 => {
            let ip = Ipv6Packet::new_checked(packet).ok()?;
            (ip.src_addr().into(), ip.dst_addr().into(), ip.next_header(), ip.payload())
        }
        _ => return None,
    };
    let is_broadcast = matches!(to, IpAddr::V4(ip) if ip.is_broadcast());
    if to.is_multicast() || to.is_unspecified() || to.is_loopback() || is_broadcast {
        return None;
    }
    match protocol {
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(payload).ok()?;
            if !segment.syn() || segment.ack() {
                return Some(ProgramPacket::Segment);
            }
            let key = (SocketAddr::new(from, segment.src_port()), SocketAddr::new(to, segment.dst_port()));
            Some(ProgramPacket::Opening(key, segment.seq_number().0))
        }
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(payload).ok()?;
            let key = (SocketAddr::new(from, datagram.src_port()), SocketAddr::new(to, datagram.dst_port()));
            Some(ProgramPacket::Datagram(key, datagram.payload().to_vec()))
        }
        _ => None,
    }
}

/// The packet that refuses a connection.
pub(super) fn reset((program, other): FlowKey, number: i32) -> Vec<u8> {
    let segment = TcpRepr {
        src_port: other.port(),
        dst_port: program.port(),
        control: TcpControl::Rst,
        seq_number: smoltcp::wire::TcpSeqNumber(0),
        ack_number: Some(smoltcp::wire::TcpSeqNumber(number.wrapping_add(1))),
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let ip = header((other.ip(), program.ip()), IpProtocol::Tcp, segment.buffer_len());
    emitted(&ip, |buffer, checksums| {
        segment.emit(&mut TcpPacket::new_unchecked(buffer), &ip.src_addr(), &ip.dst_addr(), checksums);
    })
}

/// The packet that says that there is no way to the destination of `packet`; `None` if that is none.
pub(super) fn unreachable((program, other): FlowKey, packet: &[u8]) -> Option<Vec<u8>> {
    match packet.first()? >> 4 {
        4 => {
            let refused = Ipv4Packet::new_checked(packet).ok()?;
            let data = refused.payload().get(..QUOTED)?;
            let own = header((program.ip(), other.ip()), IpProtocol::Tcp, refused.payload().len());
            let IpRepr::Ipv4(own) = own else { return None };
            let message = Icmpv4Repr::DstUnreachable {
                reason: Icmpv4DstUnreachable::HostUnreachable,
                header: own,
                data,
            };
            let ip = header((other.ip(), program.ip()), IpProtocol::Icmp, message.buffer_len());
            Some(emitted(&ip, |buffer, checksums| {
                message.emit(&mut Icmpv4Packet::new_unchecked(buffer), checksums);
            }))
        }
        _ => {
            let refused = Ipv6Packet::new_checked(packet).ok()?;
            let data = refused.payload().get(..QUOTED)?;
            let own = header((program.ip(), other.ip()), IpProtocol::Tcp, refused.payload().len());
            let (IpRepr::Ipv6(own), IpAddr::V6(from), IpAddr::V6(to)) = (own, other.ip(), program.ip())
            else {
                return None;
            };
            let message =
                Icmpv6Repr::DstUnreachable { reason: Icmpv6DstUnreachable::NoRoute, header: own, data };
            let ip = header((other.ip(), program.ip()), IpProtocol::Icmpv6, message.buffer_len());
            Some(emitted(&ip, |buffer, checksums| {
                message.emit(&from, &to, &mut Icmpv6Packet::new_unchecked(buffer), checksums);
            }))
        }
    }
}

/// A datagram as a packet; `None` if its addresses are of two families, or it is too long.
pub(super) fn datagram(from: SocketAddr, to: SocketAddr, bytes: &[u8], longest: usize) -> Option<Vec<u8>> {
    let udp = UdpRepr { src_port: from.port(), dst_port: to.port() };
    if from.is_ipv4() != to.is_ipv4() {
        return None;
    }
    let ip = header((from.ip(), to.ip()), IpProtocol::Udp, udp.header_len() + bytes.len());
    (ip.buffer_len() <= longest).then(|| {
        emitted(&ip, |buffer, checksums| {
            let mut packet = UdpPacket::new_unchecked(buffer);
            let fill = |payload: &mut [u8]| payload.copy_from_slice(bytes);
            udp.emit(&mut packet, &ip.src_addr(), &ip.dst_addr(), bytes.len(), fill, checksums);
        })
    })
}

/// The header of a packet. Both addresses are of one family.
fn header((from, to): (IpAddr, IpAddr), protocol: IpProtocol, length: usize) -> IpRepr {
    IpRepr::new(from.into(), to.into(), protocol, length, HOPS)
}

/// A packet with this header, whose payload `emit` writes.
fn emitted(ip: &IpRepr, emit: impl FnOnce(&mut [u8], &ChecksumCapabilities)) -> Vec<u8> {
    let checksums = ChecksumCapabilities::default();
    let mut buffer = vec![0; ip.buffer_len()];
    ip.emit(&mut buffer[..], &checksums);
    emit(&mut buffer[ip.header_len()..], &checksums);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(six: bool) -> FlowKey {
        let (program, other) =
            if six { ("[fd00::1]:4000", "[fd00::2]:80") } else { ("10.0.0.1:4000", "10.0.0.2:80") };
        (program.parse().unwrap(), other.parse().unwrap())
    }

    #[test]
    fn datagrams_are_read_as_they_were_made() {
        for six in [false, true] {
            let (program, other) = key(six);
            let packet = datagram(program, other, b"question", 9000).unwrap();
            assert_eq!(parse(&packet), ProgramPacket::Datagram((program, other), b"question".to_vec()));
            assert_eq!(datagram(program, other, &[0; 9000], 9000), None);
            assert_eq!(datagram(program, key(!six).1, b"", 9000), None);
        }
        let (program, _) = key(false);
        let to_all = datagram(program, "224.0.0.1:80".parse().unwrap(), b"", 9000).unwrap();
        assert_eq!(parse(&to_all), ProgramPacket::Other);
    }

    #[test]
    fn refusals_acknowledge_the_opening_and_name_it() {
        for six in [false, true] {
            let (program, other) = key(six);
            let packet = reset((program, other), i32::MAX);
            assert_eq!(parse(&packet), ProgramPacket::Segment);
            let head = packet.len() - 20;
            let segment = TcpPacket::new_checked(&packet[head..]).unwrap();
            assert!(segment.rst() && segment.ack());
            assert_eq!(segment.ack_number().0, i32::MIN);
            assert_eq!((segment.src_port(), segment.dst_port()), (80, 4000));
            let opening = datagram(program, other, b"eight by", 9000).unwrap();
            let message = unreachable((program, other), &opening).unwrap();
            assert!(message.windows(4).any(|part| part == [15, 160, 0, 80]), "it has the ports: {message:?}");
            assert_eq!(unreachable((program, other), &opening[..10]), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), six: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = if six { 0x60 } else { 0x45 };
            }
            parse(&bytes);
            let _ = unreachable(key(six), &bytes);
        }
    }
}

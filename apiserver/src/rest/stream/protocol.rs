//! The subprotocols of Kubernetes' WebSocket streams: negotiation, and the encoding of channels in messages.
//! Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use kstore_api::status::{Outcome, Status};
use tokio_tungstenite::tungstenite::Message;

/// The channel of messages by which a client closes another channel.
const CLOSE: u8 = 255;

/// A subprotocol: the encoding of a stream in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Protocol {
    /// The name that the client requests; "" if it requests none.
    pub(super) name: &'static str,
    /// Whether messages are base64 text instead of binary.
    base64: bool,
    /// Whether the end is reported as a Status in JSON; before version 4 only a failure is reported, as text.
    status: bool,
    /// Whether channels can be closed one by one.
    closes: bool,
}

const fn protocol(name: &'static str, base64: bool, status: bool, closes: bool) -> Protocol {
    Protocol { name, base64, status, closes }
}

/// Subprotocols of `exec` and `attach`.
const CHANNELS: [Protocol; 6] = [
    protocol("v5.channel.k8s.io", false, true, true),
    protocol("v4.channel.k8s.io", false, true, false),
    protocol("v4.base64.channel.k8s.io", true, true, false),
    protocol("channel.k8s.io", false, false, false),
    protocol("base64.channel.k8s.io", true, false, false),
    protocol("", false, false, false),
];

/// Subprotocols of `portforward` that kubelets know. Version 5 is not among them, although clients offer it.
const PORTS: [Protocol; 3] = [
    protocol("v4.channel.k8s.io", false, true, false),
    protocol("v4.base64.channel.k8s.io", true, true, false),
    protocol("", false, false, false),
];

/// Subprotocols of `log`: data without channels.
const PLAIN: [Protocol; 3] = [
    protocol("binary.k8s.io", false, false, false),
    protocol("base64.binary.k8s.io", true, false, false),
    protocol("", false, false, false),
];

/// The first offered protocol that is served. A client that offers none offers "".
fn choose(offered: &str, served: &[Protocol]) -> Option<Protocol> {
    let mut names = offered.split(',').map(str::trim);
    names.find_map(|name| served.iter().find(|protocol| protocol.name == name).copied())
}

/// Negotiates the protocol of an `exec` or `attach`.
pub(super) fn channels(offered: &str) -> Option<Protocol> {
    choose(offered, &CHANNELS)
}

/// Negotiates the protocol of a `portforward` that is not tunnelled SPDY.
pub(super) fn ports(offered: &str) -> Option<Protocol> {
    choose(offered, &PORTS)
}

/// Negotiates the protocol of a `log`.
pub(super) fn plain(offered: &str) -> Option<Protocol> {
    choose(offered, &PLAIN)
}

/// A decoded message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Data on a channel.
    Data(u8, Bytes),
    /// The client sends no more on this channel.
    End(u8),
}

/// A client's message is malformed: the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadFrame {
    #[error("a message without a channel")]
    NoChannel,
    #[error("the message is not base64")]
    NotBase64,
}

impl Protocol {
    /// Whether the client waits for an empty message first.
    pub(super) fn greets(&self) -> bool {
        !self.closes
    }

    /// Encodes data on a channel for the client.
    pub(super) fn encode(&self, channel: u8, data: &[u8]) -> Message {
        if self.base64 {
            return Message::text(format!("{}{}", char::from(b'0' + channel), STANDARD.encode(data)));
        }
        let mut message = BytesMut::with_capacity(data.len() + 1);
        message.put_u8(channel);
        message.put_slice(data);
        Message::binary(message.freeze())
    }

    /// Encodes data without a channel for the client.
    pub(super) fn encode_plain(&self, data: Bytes) -> Message {
        match self.base64 {
            true => Message::text(STANDARD.encode(&data)),
            false => Message::binary(data),
        }
    }

    /// Encodes the result of the stream; `None` if this protocol does not report it.
    pub(super) fn encode_end(&self, status: &Status) -> Option<Message> {
        let error_channel = 3;
        match (self.status, status.status) {
            (true, _) => Some(self.encode(error_channel, &status.to_json())),
            (false, Outcome::Failure) => Some(self.encode(error_channel, status.message.as_bytes())),
            (false, Outcome::Success) => None,
        }
    }

    /// Decodes a message of the client; `None` for messages without data.
    pub(super) fn decode(&self, message: Message) -> Result<Option<Frame>, BadFrame> {
        let data = match message {
            Message::Text(text) if self.base64 => {
                let (channel, rest) = text.as_str().split_at_checked(1).ok_or(BadFrame::NoChannel)?;
                let channel = channel.as_bytes()[0].wrapping_sub(b'0');
                let data = STANDARD.decode(rest).map_err(|_| BadFrame::NotBase64)?;
                return Ok(Some(Frame::Data(channel, data.into())));
            }
            // Some clients send text messages in binary protocols.
            Message::Text(text) => Bytes::from(text),
            Message::Binary(data) => data,
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => return Ok(None),
        };
        let (&channel, _) = data.split_first().ok_or(BadFrame::NoChannel)?;
        let rest = data.slice(1..);
        match (channel, self.closes, rest.first()) {
            (CLOSE, true, Some(&closed)) => Ok(Some(Frame::End(closed))),
            _ => Ok(Some(Frame::Data(channel, rest))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_common_protocol_is_chosen() {
        let name = |offered: &str| channels(offered).map(|protocol| protocol.name);
        assert_eq!(name("v5.channel.k8s.io, v4.channel.k8s.io"), Some("v5.channel.k8s.io"));
        assert_eq!(name("v9.channel.k8s.io,v4.channel.k8s.io"), Some("v4.channel.k8s.io"));
        assert_eq!(name(""), Some(""));
        assert_eq!(name("chat"), None);
        assert_eq!(plain("base64.binary.k8s.io").map(|protocol| protocol.base64), Some(true));
    }

    /// Python's `kubernetes` offers the first two of these protocols, JavaScript's client all of them.
    #[test]
    fn port_forwarding_skips_offered_protocols_that_kubelets_do_not_speak_for_it() {
        let name = |offered: &str| ports(offered).map(|protocol| protocol.name);
        assert_eq!(name("v5.channel.k8s.io,v4.channel.k8s.io"), Some("v4.channel.k8s.io"));
        let all =
            "v5.channel.k8s.io, v4.channel.k8s.io, v3.channel.k8s.io, v2.channel.k8s.io, channel.k8s.io";
        assert_eq!(name(all), Some("v4.channel.k8s.io"));
        assert_eq!(name("channel.k8s.io,v4.base64.channel.k8s.io"), Some("v4.base64.channel.k8s.io"));
        assert_eq!(name(""), Some(""));
        assert_eq!((name("v5.channel.k8s.io"), name("channel.k8s.io")), (None, None));
    }

    #[test]
    fn channels_are_the_first_byte_of_a_message() {
        let v5 = channels("v5.channel.k8s.io").unwrap();
        assert_eq!(v5.encode(1, b"hi"), Message::binary(&b"\x01hi"[..]));
        let decode = |bytes: &'static [u8]| v5.decode(Message::binary(bytes));
        assert_eq!(decode(b"\x00in"), Ok(Some(Frame::Data(0, Bytes::from_static(b"in")))));
        assert_eq!(decode(b"\xff\x00"), Ok(Some(Frame::End(0))));
        assert_eq!(decode(b""), Err(BadFrame::NoChannel));
        let v4 = channels("v4.channel.k8s.io").unwrap();
        let data = Frame::Data(255, Bytes::from_static(b"\x00"));
        assert_eq!(v4.decode(Message::binary(&b"\xff\x00"[..])), Ok(Some(data)), "nothing closes before v5");

        let base64 = channels("v4.base64.channel.k8s.io").unwrap();
        assert_eq!(base64.encode(1, b"hi"), Message::text("1aGk="));
        assert_eq!(
            base64.decode(Message::text("0aGk=")),
            Ok(Some(Frame::Data(0, Bytes::from_static(b"hi"))))
        );
        assert_eq!(base64.decode(Message::text("0?")), Err(BadFrame::NotBase64));
    }

    #[test]
    fn the_result_is_a_status_since_version_four_and_text_before() {
        let failed = Status::bad_request("no");
        let v4 = channels("v4.channel.k8s.io").unwrap();
        let Some(Message::Binary(bytes)) = v4.encode_end(&failed) else { panic!("no message") };
        assert_eq!(bytes[0], 3);
        assert_eq!(serde_json::from_slice::<Status>(&bytes[1..]).unwrap(), failed);
        let old = channels("channel.k8s.io").unwrap();
        assert_eq!(old.encode_end(&failed), Some(Message::binary(&b"\x03no"[..])));
        assert_eq!(old.encode_end(&Status::success(200)), None);
    }
}

//! Frames of SPDY/3.1, in the subset that Kubernetes' streaming servers use: those of a client are encoded, those of a server decoded.
//! Pure.

use crate::limits::FRAME_BYTES;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;

/// A frame of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// Data on a stream; with `fin`, its last.
    Data { id: u32, data: Bytes, fin: bool },
    /// The end of a stream.
    Reset { id: u32 },
    /// Must be answered with the same frame, if the server has sent it first.
    Ping { id: u32 },
    /// The end of the connection.
    GoAway,
    /// A frame that has no effect here, such as the acceptance of a stream.
    Other,
}

/// The next whole frame of `buffer`, which is removed; `None` if more bytes are needed.
///
/// # Errors
/// The bytes are no frames.
pub(super) fn next(buffer: &mut BytesMut) -> Result<Option<Frame>, String> {
    let Some(head) = buffer.first_chunk::<8>().copied() else { return Ok(None) };
    let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
    if length > FRAME_BYTES {
        return Err(format!("a frame of {length} bytes is too long"));
    }
    if buffer.len() < 8 + length {
        return Ok(None);
    }
    buffer.advance(8);
    let body = buffer.split_to(length).freeze();
    if head[0] & 0x80 == 0 {
        let id = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        return Ok(Some(Frame::Data { id, data: body, fin: head[4] & FIN != 0 }));
    }
    if u16::from_be_bytes([head[0], head[1]]) != VERSION {
        return Err("a frame is of another version than SPDY/3.1".to_owned());
    }
    let id =
        || body.first_chunk::<4>().map(|id| u32::from_be_bytes(*id)).ok_or("a frame is too short".to_owned());
    Ok(Some(match u16::from_be_bytes([head[2], head[3]]) {
        RST_STREAM => Frame::Reset { id: id()? & 0x7fff_ffff },
        PING => Frame::Ping { id: id()? },
        GOAWAY => Frame::GoAway,
        _ => Frame::Other,
    }))
}

fn control(kind: u16, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + body.len());
    frame.put_u16(VERSION);
    frame.put_u16(kind);
    // The highest byte has the flags. It is zero, because a control frame is shorter than 16 MiB.
    frame.put_u32(u32::try_from(body.len()).expect("a control frame is small"));
    frame.put_slice(body);
    frame.freeze()
}

/// Opens a stream with these headers. `is_first`: it is the first one of the connection, which begins the compressed stream of all headers.
pub(super) fn open(id: u32, headers: &[(&str, &str)], is_first: bool) -> Bytes {
    let mut block = BytesMut::new();
    let count = |length: usize| u32::try_from(length).expect("headers are few and short");
    block.put_u32(count(headers.len()));
    for (name, value) in headers {
        block.put_u32(count(name.len()));
        block.put_slice(name.as_bytes());
        block.put_u32(count(value.len()));
        block.put_slice(value.as_bytes());
    }
    let mut body = BytesMut::new();
    body.put_u32(id);
    // No stream belongs to it; neither priority nor slot.
    body.put_slice(&[0; 6]);
    if is_first {
        // The head of zlib.
        body.put_slice(&[0x78, 0x01]);
    }
    // Stored without compression, which every decompressor reads; then an empty block, after which it has read all.
    let length = u16::try_from(block.len()).expect("headers are few and short");
    body.put_u8(0);
    body.put_u16_le(length);
    body.put_u16_le(!length);
    body.put_slice(&block);
    body.put_slice(&[0, 0, 0, 0xff, 0xff]);
    control(SYN_STREAM, &body)
}

/// The answer to a ping.
pub(super) fn pong(id: u32) -> Bytes {
    control(PING, &id.to_be_bytes())
}

/// Data of a stream; with `fin`, its last.
pub(super) fn data(id: u32, data: &[u8], fin: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(8 + data.len());
    frame.put_u32(id);
    let length = u32::try_from(data.len()).expect("data comes in small pieces");
    frame.put_u32(u32::from(fin) << 24 | length);
    frame.put_slice(data);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn a_stream_is_opened_with_headers_that_need_no_compressor() {
        let first = open(1, &[("streamtype", "error")], true);
        let block = [&[0, 0, 0, 1, 0, 0, 0, 10][..], b"streamtype", &[0, 0, 0, 5], b"error"].concat();
        let length = u8::try_from(block.len()).unwrap();
        let stored =
            [&[0x78, 0x01, 0, length, 0, !length, 0xff][..], &block, &[0, 0, 0, 0xff, 0xff]].concat();
        assert_eq!(&first[..4], [0x80, 3, 0, 1]);
        assert_eq!(&first[8..18], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&first[18..], stored);
        assert_eq!(open(3, &[("streamtype", "error")], false)[18..], stored[2..]);
    }

    #[test]
    fn frames_of_a_server_are_known_and_bad_ones_refused() {
        let read = |bytes: &[u8]| next(&mut BytesMut::from(bytes));
        assert_eq!(read(&pong(7)), Ok(Some(Frame::Ping { id: 7 })));
        assert_eq!(read(&control(RST_STREAM, &[0, 0, 0, 5, 0, 0, 0, 1])), Ok(Some(Frame::Reset { id: 5 })));
        assert_eq!(read(&control(GOAWAY, &[0; 8])), Ok(Some(Frame::GoAway)));
        assert_eq!(read(&control(2, &[0, 0, 0, 1])), Ok(Some(Frame::Other)));
        assert!(read(&control(PING, &[0])).is_err());
        assert!(read(&[0x80, 2, 0, 1, 0, 0, 0, 0]).is_err());
        assert!(read(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]).is_err());
        assert_eq!(read(&[0, 0, 0, 1]), Ok(None));
    }

    proptest! {
        #[test]
        fn data_arrives_as_it_was_sent_in_pieces_of_any_size(
            sent in proptest::collection::vec((1_u32..9, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..8),
            size in 1_usize..20,
        ) {
            let bytes: Vec<u8> = sent.iter().flat_map(|(id, bytes, fin)| data(*id, bytes, *fin)).collect();
            let (mut buffer, mut read) = (BytesMut::new(), Vec::new());
            for piece in bytes.chunks(size) {
                buffer.put_slice(piece);
                while let Some(frame) = next(&mut buffer).unwrap() {
                    read.push(frame);
                }
            }
            let expected: Vec<_> = sent
                .into_iter()
                .map(|(id, bytes, fin)| Frame::Data { id, data: bytes.into(), fin })
                .collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn bytes_of_any_kind_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = next(&mut buffer) {}
        }
    }
}

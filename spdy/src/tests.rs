//! Tests with frames as clients send them. The header blocks were made by the reference implementation of
//! zlib.

use crate::frame::{Decoder, Frame, SpdyError, data, open as opened, pong, reply};
use crate::headers::{Inflate, dictionary};
use crate::limits::FRAME_BYTES;
use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1u32, 0u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

#[test]
fn the_dictionary_matches_the_specification() {
    assert_eq!((dictionary().len(), adler32(&dictionary())), (1423, 0xe3c6_a7c2));
}

/// SYN_STREAMs of one connection: `streamtype: error, port: 80, requestid: 0`, then `streamtype: data, …`.
const BLOCKS: [&str; 2] = [
    "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc64610024398b209198094adc8c0600000000ffff",
    "c2aa15540a2512d209000000ffff",
];

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn open(id: u32, block: &[u8]) -> Vec<u8> {
    let length = u32::try_from(10 + block.len()).unwrap();
    [&[0x80, 3, 0, 1][..], &length.to_be_bytes(), &id.to_be_bytes(), &[0; 6], block].concat()
}

#[test]
fn streams_are_opened_with_headers_that_share_one_compressor() {
    let mut decoder = Decoder::new();
    for (id, block) in [(1, BLOCKS[0]), (3, BLOCKS[1])] {
        decoder.feed(&open(id, &bytes(block)));
    }
    for (id, kind) in [(1, "error"), (3, "data")] {
        let Ok(Some(Frame::Open { id: got, headers, fin: false })) = decoder.decode() else {
            panic!("no stream")
        };
        let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!((got, headers), (id, vec![("port", "80"), ("requestid", "0"), ("streamtype", kind)]));
    }
    assert_eq!(decoder.decode(), Ok(None));
}

#[test]
fn frames_are_decoded_from_chunks_of_any_size() {
    let mut decoder = Decoder::new();
    let sent = [data(5, b"hello", false), data(5, b"", true), pong(7)].concat();
    let mut frames = Vec::new();
    for byte in sent {
        decoder.feed(&[byte]);
        frames.extend(decoder.decode().unwrap());
    }
    let (hello, nothing) = (Bytes::from_static(b"hello"), Bytes::new());
    let expected = [
        Frame::Data { id: 5, data: hello, fin: false },
        Frame::Data { id: 5, data: nothing, fin: true },
        Frame::Ping { id: 7 },
    ];
    assert_eq!(frames, expected);
}

#[test]
fn invalid_spdy_is_refused() {
    let refused = |bytes: &[u8]| {
        let mut decoder = Decoder::new();
        decoder.feed(bytes);
        decoder.decode().err()
    };
    assert_eq!(refused(&[0x80, 2, 0, 1, 0, 0, 0, 0]), Some(SpdyError::Version));
    assert_eq!(refused(&[0x80, 3, 0, 1, 0, 0, 0, 0]), Some(SpdyError::Short));
    assert_eq!(refused(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]), Some(SpdyError::TooLarge));
    const { assert!(FRAME_BYTES < 0xff_ffff) };
    assert_eq!(refused(&open(1, b"nonsense")), Some(SpdyError::Headers));
}

#[test]
fn replies_have_valid_header_blocks() {
    let mut inflate = Inflate::new();
    for (id, first) in [(1, true), (3, false), (5, false)] {
        let reply = reply(id, first);
        assert_eq!(reply[..4], [0x80, 3, 0, 2]);
        assert_eq!(inflate.read(&reply[12..]), Ok(Default::default()), "{id}");
    }
}

#[test]
fn a_stream_is_opened_with_headers_that_need_no_compressor() {
    let first = opened(1, &[("streamtype", "error")], true);
    let block = [&[0, 0, 0, 1, 0, 0, 0, 10][..], b"streamtype", &[0, 0, 0, 5], b"error"].concat();
    let length = u8::try_from(block.len()).unwrap();
    let stored = [&[0x78, 0x01, 0, length, 0, !length, 0xff][..], &block, &[0, 0, 0, 0xff, 0xff]].concat();
    assert_eq!(&first[..4], [0x80, 3, 0, 1]);
    assert_eq!(&first[8..18], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&first[18..], stored);
    assert_eq!(opened(3, &[("streamtype", "error")], false)[18..], stored[2..]);
}

proptest! {
    #[test]
    fn data_arrives_as_it_was_sent_in_pieces_of_any_size(
        sent in proptest::collection::vec((1_u32..9, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 0..8),
        size in 1_usize..20,
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|(id, bytes, fin)| data(*id, bytes, *fin)).collect();
        let (mut decoder, mut read) = (Decoder::new(), Vec::new());
        for piece in bytes.chunks(size) {
            decoder.feed(piece);
            while let Some(frame) = decoder.decode().unwrap() {
                read.push(frame);
            }
        }
        let expected: Vec<_> =
            sent.into_iter().map(|(id, bytes, fin)| Frame::Data { id, data: bytes.into(), fin }).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn headers_of_a_client_are_read_by_a_server(
        streams in proptest::collection::vec(proptest::collection::btree_map("[a-z]{1,8}", "[ -~]{0,20}", 0..4), 1..5),
    ) {
        let mut decoder = Decoder::new();
        for (headers, id) in streams.into_iter().zip((1..).step_by(2)) {
            let pairs: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            decoder.feed(&opened(id, &pairs, id == 1));
            prop_assert_eq!(decoder.decode(), Ok(Some(Frame::Open { id, headers, fin: false })));
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..8)) {
        let mut decoder = Decoder::new();
        for mut piece in pieces {
            // Most random bytes are not a control frame; make some that are.
            if piece.len() > 12 && piece[0] % 2 == 0 {
                let head = [0x80, 3, 0, piece[1] % 10, 0, 0, 0, piece[2] % 48];
                piece[..8].copy_from_slice(&head);
            }
            decoder.feed(&piece);
            while let Ok(Some(_)) = decoder.decode() {}
        }
    }
}

//! [`RawCodec`]: tonic's frames with messages as bytes, whose types only the call knows; and the messages of files, which are no JSON.

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A codec that leaves messages encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, frame: &mut EncodeBuf<'_>) -> Result<(), Status> {
        frame.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, frame: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(frame.copy_to_bytes(frame.remaining())))
    }
}

/// `FilePiece` of `lab.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FilePiece {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) data: Bytes,
}

/// `LoadImagePiece` of `lab.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LoadImagePiece {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) data: Bytes,
}

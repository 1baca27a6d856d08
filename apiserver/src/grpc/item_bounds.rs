//! Bounds on the items of a call's message, checked before it is decoded: an empty operation of two bytes would become a value of some
//! hundred bytes, so that a message of permitted size could take hundreds of megabytes.

use super::call_body::CallBody;
use axum::BoxError;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use kstore_api::status::Status;
use kstore_storage::limits;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes before the message of a call.
const PREFIX: usize = 5;

/// The repeated field of a call's message.
pub(super) struct ItemBound {
    /// The number of the field in kstore.proto.
    field: u64,
    most: usize,
    /// The beginning of the refusal.
    what: &'static str,
}

impl ItemBound {
    /// The bound of the call at a path, if its message has a repeated field.
    pub(super) fn of(path: &str) -> Option<Self> {
        match path.strip_prefix("/kstore.v1.Kstore/")? {
            "Watch" => {
                Some(Self { field: 1, most: limits::WATCH_SELECTORS, what: "a watch has 1 to 128 selectors" })
            }
            "Transact" => Some(Self {
                field: 1,
                most: limits::TRANSACTION_OPERATIONS,
                what: "a transaction has 1 to 128 operations",
            }),
            "Each" => {
                Some(Self { field: 1, most: limits::EACH_OPERATIONS, what: "a call has 1 to 128 operations" })
            }
            _ => None,
        }
    }

    /// Reads a whole body and counts its items.
    ///
    /// # Errors
    /// The body cannot be read within the bounds of its call, or has too many items.
    pub(super) async fn read<B>(&self, mut body: CallBody<B>) -> Result<ReadBody<B>, tonic::Status>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: Into<BoxError>,
    {
        let mut frames = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.downcast::<tonic::Status>() {
                Ok(status) => *status,
                Err(error) => tonic::Status::cancelled(error.to_string()),
            })?;
            frames.extend(frame.into_data().ok());
        }
        let bytes = match frames.as_slice() {
            [one] => one.clone(),
            several => several.concat().into(),
        };
        let message = bytes.get(PREFIX..).unwrap_or_default();
        if kstore_proto::count_fields(message, self.field, self.most) > self.most {
            return Err(kstore_registry::error::to_grpc(&Status::bad_request(format!(
                "{}: this one has more",
                self.what
            ))));
        }
        Ok(ReadBody { bytes: Some(bytes), _reserved: body })
    }
}

/// A body that was read; its bytes are reserved until it is dropped.
pub(super) struct ReadBody<B> {
    bytes: Option<Bytes>,
    _reserved: CallBody<B>,
}

impl<B: Unpin> http_body::Body for ReadBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusals_state_their_bounds() {
        for path in ["/kstore.v1.Kstore/Watch", "/kstore.v1.Kstore/Transact", "/kstore.v1.Kstore/Each"] {
            let bound = ItemBound::of(path).unwrap();
            assert!(bound.what.contains(&bound.most.to_string()), "{path}");
        }
        assert!(ItemBound::of("/kstore.v1.Kstore/List").is_none());
    }

    /// Each request message with a repeated field has a bound: a new one must get its own.
    #[test]
    fn messages_of_calls_have_no_other_repeated_fields() {
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/proto/kstore/v1/kstore.proto");
        let text = std::fs::read_to_string(proto).unwrap();
        let mut found = Vec::new();
        let mut message = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("message ") {
                message = rest.split(' ').next().unwrap_or_default();
            }
            if message.ends_with("Request") && line.trim_start().starts_with("repeated ") {
                found.push(message);
            }
        }
        assert_eq!(found, ["WatchRequest", "TransactRequest", "EachRequest"]);
    }
}

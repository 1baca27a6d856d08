//! The body of a watch as a stream of frames: one batch for the lines that each network chunk completes. A
//! revision that several objects share may be split over batches. [`LineSplitter`] splits chunks into lines: a line
//! within one chunk is a slice of it; the parts of a line that spans chunks are copied together.

use super::ResponseBody;
use super::decode::{Decoder, WatchLine};
use crate::limits::{KUBE_INITIAL_SILENCE, KUBE_LINE};
use crate::{Capability, Frame, Frames, Object, Revision, SourceError};
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{Instant, timeout_at};

/// An open watch.
pub(super) struct Watch<T> {
    pub body: ResponseBody,
    pub decoder: Decoder<T>,
    /// Whether the initial state is still arriving.
    pub initial: bool,
    /// The lowest revision that the initial state must have.
    pub least: Revision,
    /// Set to false when the server turns out not to support streaming lists.
    pub streaming: Arc<AtomicBool>,
    /// When the server should have ended the watch.
    pub deadline: Instant,
    lines: LineSplitter,
    /// The error to return after the frames before it.
    end: Option<SourceError>,
}

impl<T: Object> Watch<T> {
    pub(super) fn new(
        body: ResponseBody,
        decoder: Decoder<T>,
        initial: Option<Revision>,
        streaming: Arc<AtomicBool>,
        deadline: Instant,
    ) -> Self {
        let least = initial.unwrap_or_default();
        let initial = initial.is_some();
        Self { body, decoder, initial, least, streaming, deadline, lines: LineSplitter::default(), end: None }
    }

    pub(super) fn frames(self) -> Frames<T> {
        stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            match watch.next().await? {
                Ok(frames) => Some((Ok(frames), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Vec<Frame<T>>, SourceError>> {
        loop {
            if let Some(error) = self.end.take() {
                return Some(Err(error));
            }
            let quiet = Instant::now() + KUBE_INITIAL_SILENCE;
            let until = if self.initial { quiet.min(self.deadline) } else { self.deadline };
            let chunk = match timeout_at(until, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame.into_data(),
                Ok(Some(Err(error))) => return Some(Err(SourceError::Unreachable(error.to_string()))),
                Ok(None) => return None,
                Err(_) if self.initial => return Some(Err(self.cannot_stream())),
                // The server exceeded its own timeout: the connection may be dead.
                Err(_) => return None,
            };
            let Ok(chunk) = chunk else { continue };
            let Ok(lines) = self.lines.cut(chunk, KUBE_LINE) else {
                let text = format!("an event is longer than {KUBE_LINE} bytes");
                return Some(Err(SourceError::Fatal(text)));
            };
            let mut frames = Vec::with_capacity(lines.len());
            for line in lines {
                if let Err(error) = self.read(&line, &mut frames) {
                    self.end = Some(error);
                    break;
                }
            }
            if !frames.is_empty() {
                return Some(Ok(frames));
            }
        }
    }

    fn read(&mut self, line: &[u8], frames: &mut Vec<Frame<T>>) -> Result<(), SourceError> {
        match self.decoder.line(line)? {
            WatchLine::Frame(frame) => {
                self.look(&frame)?;
                frames.push(frame);
            }
            WatchLine::RequestError(status) if self.initial && status.refuses_streaming() => {
                return Err(self.cannot_stream());
            }
            WatchLine::RequestError(status) => return Err(status.meaning(None)),
            WatchLine::Nothing => {}
        }
        Ok(())
    }

    fn look(&mut self, frame: &Frame<T>) -> Result<(), SourceError> {
        match frame {
            Frame::Progress { revision, initial_done: true } if self.initial => {
                self.initial = false;
                match *revision < self.least {
                    true => Err(SourceError::Ahead { retry_after: None }),
                    false => Ok(()),
                }
            }
            // A server without streaming lists ignores the request for an initial state: its first bookmark
            // lacks the annotation.
            Frame::Progress { initial_done: false, .. } if self.initial => Err(self.cannot_stream()),
            Frame::Put(_) | Frame::Gone { .. } | Frame::Undecodable(_) | Frame::Progress { .. } => Ok(()),
        }
    }

    fn cannot_stream(&self) -> SourceError {
        self.streaming.store(false, Ordering::Release);
        SourceError::Unsupported(Capability::StreamingList)
    }
}

/// Splitter that turns network chunks into lines and buffers an incomplete last line.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    begun: BytesMut,
}

/// The line exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl LineSplitter {
    /// The complete lines up to the end of `chunk`, without line ends and empty lines. Buffers an incomplete
    /// last line.
    pub(super) fn cut(&mut self, mut chunk: Bytes, longest: usize) -> Result<Vec<Bytes>, TooLong> {
        let mut lines = Vec::new();
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let head = chunk.split_to(end + 1).slice(..end);
            let line = match self.begun.is_empty() {
                true => head,
                false => {
                    self.begun.extend_from_slice(&head);
                    self.begun.split().freeze()
                }
            };
            if !line.trim_ascii().is_empty() {
                lines.push(line);
            }
        }
        if self.begun.len() + chunk.len() > longest {
            return Err(TooLong);
        }
        self.begun.extend_from_slice(&chunk);
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R1 depends on this: the chunking of a stream does not change its lines.
    #[test]
    fn lines_are_independent_of_network_chunks() {
        let text = "{\"a\":1}\n\n{\"b\":\"ü\"}\r\n{}\nrest";
        let whole = ["{\"a\":1}", "{\"b\":\"ü\"}\r", "{}"];
        for size in 1..text.len() {
            let mut lines = LineSplitter::default();
            let mut got = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                got.extend(lines.cut(Bytes::copy_from_slice(chunk), 100).unwrap());
            }
            assert_eq!(got, whole, "chunks of {size}");
            assert_eq!(lines.begun, "rest");
        }
    }

    #[test]
    fn an_unterminated_line_is_bounded() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.cut(Bytes::from_static(b"12345"), 8), Ok(Vec::new()));
        assert_eq!(lines.cut(Bytes::from_static(b"6789"), 8), Err(TooLong));
    }
}

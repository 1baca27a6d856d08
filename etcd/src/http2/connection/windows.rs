//! Flow control from the client's side: its settings, and the windows of streams and connection.

use super::super::frame::{self, Head, PAYLOAD_BYTES, PAYLOAD_MAX, Reason, Setting, WINDOW_MAX};
use super::super::stream::Stream;
use super::{Connection, ConnectionError};
use tokio::io::{AsyncRead, AsyncWrite};

impl<T: AsyncRead + AsyncWrite + Unpin> Connection<T> {
    pub(super) fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        if head.is_ack() {
            return Ok(());
        }
        let mut window = None;
        for (setting, value) in frame::read_settings(payload) {
            match setting {
                Setting::HeaderTable => self.outbox.encoder.resize(value),
                Setting::MaxFrame if !(PAYLOAD_BYTES as u32..=PAYLOAD_MAX).contains(&value) => {
                    return Err(ConnectionError(Reason::Protocol));
                }
                Setting::MaxFrame => self.outbox.resize_frames(value),
                Setting::InitialWindow if i64::from(value) > WINDOW_MAX => {
                    return Err(ConnectionError(Reason::FlowControl));
                }
                // Only the last value counts: applying each one would visit every stream.
                Setting::InitialWindow => window = Some(i64::from(value)),
                Setting::Push if value > 1 => return Err(ConnectionError(Reason::Protocol)),
                Setting::Push | Setting::MaxStreams | Setting::MaxHeaderList => {}
            }
        }
        frame::settings_ack(&mut self.outbox.bytes);
        self.charge_abuse()?;
        window.map_or(Ok(()), |window| self.resize_windows(window))
    }

    /// Applies a new initial window to open streams by the difference; their windows may become negative.
    fn resize_windows(&mut self, initial: i64) -> Result<(), ConnectionError> {
        let more = initial - std::mem::replace(&mut self.outbox.initial, initial);
        self.streams.values_mut().for_each(|stream| stream.window += more);
        if self.streams.values().any(|stream| stream.window > WINDOW_MAX) {
            return Err(ConnectionError(Reason::FlowControl));
        }
        let waits = |stream: &Stream| stream.window > 0 && !stream.is_queued && !stream.waiting.is_empty();
        let mut waiting: Vec<u32> =
            self.streams.iter().filter(|(_, stream)| waits(stream)).map(|(id, _)| *id).collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|id| self.pump(id));
        Ok(())
    }

    pub(super) fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<(), ConnectionError> {
        let bytes = payload.first_chunk().copied().ok_or(ConnectionError(Reason::FrameSize))?;
        let more = i64::from(u32::from_be_bytes(bytes) & (WINDOW_MAX as u32));
        if head.stream == 0 {
            if more == 0 {
                return Err(ConnectionError(Reason::Protocol));
            }
            if !self.outbox.widen(more) {
                return Err(ConnectionError(Reason::FlowControl));
            }
            self.pump_blocked();
        } else if self.is_idle(head.stream) {
            return Err(ConnectionError(Reason::Protocol));
        } else if let Some(stream) = self.streams.get_mut(&head.stream) {
            stream.window += more;
            if more == 0 {
                return self.reset_stream(head.stream, Reason::Protocol);
            }
            if stream.window > WINDOW_MAX {
                return self.reset_stream(head.stream, Reason::FlowControl);
            }
            self.pump(head.stream);
        }
        Ok(())
    }
}

//! The streams of a command or of an attached client: one for each channel, as a client opens them.

use crate::{Connection, Event, Sender};
use bytes::Bytes;

/// The channel of standard input.
const STDIN: u32 = 0;
/// The channel of standard error; all others are standard output.
const STDERR: u32 = 2;
/// The channel of the sizes of a terminal.
const RESIZE: u32 = 4;

/// Which streams a client opens beside the one of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedChannels {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error; a terminal has none.
    pub stderr: bool,
    /// Whether there is a terminal.
    pub tty: bool,
    /// Whether the protocol has a stream of the sizes of a terminal: since version 3.
    pub has_sizes: bool,
}

impl WantedChannels {
    /// How many streams the client opens.
    fn count(self) -> usize {
        let Self { stdin, stdout, stderr, tty, has_sizes } = self;
        let all = [true, stdin, stdout, stderr && !tty, tty && has_sizes];
        all.into_iter().filter(|is_wanted| *is_wanted).count()
    }
}

/// The SPDY stream of each channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStreams {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

impl ChannelStreams {
    /// Waits until the client has opened all its streams; `None` if it leaves before, or opens an unknown one.
    pub async fn opened(connection: &mut Connection, wanted: WantedChannels) -> Option<Self> {
        let (mut ids, mut count) = (Self::default(), 0);
        while count < wanted.count() {
            let Event::Opened(id, headers) = connection.next().await? else { continue };
            let slot = match headers.get("streamtype").map(String::as_str) {
                Some("error") => &mut ids.error,
                Some("stdin") => &mut ids.stdin,
                Some("stdout") => &mut ids.stdout,
                Some("stderr") => &mut ids.stderr,
                Some("resize") => &mut ids.resize,
                Some(_) | None => return None,
            };
            *slot = Some(id);
            count += 1;
        }
        Some(ids)
    }

    /// The channel on which the client sent something, and the data; without data the client sends no more on it. `None` for events
    /// without meaning.
    pub fn input(&self, event: Event) -> Option<(u32, Option<Bytes>)> {
        match event {
            Event::Data(id, data) if Some(id) == self.stdin => Some((STDIN, Some(data))),
            Event::Data(id, data) if Some(id) == self.resize => Some((RESIZE, Some(data))),
            Event::Ended(id) if Some(id) == self.stdin => Some((STDIN, None)),
            Event::Data(..) | Event::Ended(_) | Event::Opened(..) => None,
        }
    }

    /// Sends what a command printed on a channel, if the client has opened its stream.
    pub async fn output(&self, sender: &Sender, channel: u32, data: &[u8]) {
        if let Some(id) = if channel == STDERR { self.stderr } else { self.stdout } {
            sender.data(id, data).await;
        }
    }

    /// Sends the result, and ends the streams of the server.
    pub async fn end(&self, sender: &Sender, result: &[u8]) {
        if let Some(error) = self.error {
            sender.data(error, result).await;
        }
        for id in [self.stdout, self.stderr, self.error].into_iter().flatten() {
            sender.end(id).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_one_output_and_sizes() {
        let of = |stdin, stderr, tty, has_sizes| {
            WantedChannels { stdin, stdout: true, stderr, tty, has_sizes }.count()
        };
        assert_eq!([of(true, true, false, true), of(false, true, false, true)], [4, 3]);
        assert_eq!([of(true, false, true, true), of(true, false, true, false)], [4, 3]);
    }
}

//! [`Feed`]: a source of an informer whose messages a benchmark sends.

use futures::{StreamExt, stream};
use kstore_informer::{
    Capabilities, Domain, Frame, Frames, ListRequest, ListerWatcher, Object, Page, Revisions, SourceError,
    Start,
};
use std::collections::VecDeque;
use std::sync::Mutex;
use tokio::sync::mpsc;

/// What a stream delivers: a message, or the error that ends it.
pub(crate) type Item<T> = Result<Vec<Frame<T>>, SourceError>;

/// A source whose streams are channels.
pub(crate) struct Feed<T>(Mutex<VecDeque<mpsc::Receiver<Item<T>>>>);

impl<T> Feed<T> {
    /// Creates a source, and the senders of its streams, one after the other.
    pub(crate) fn new(streams: usize) -> (Self, Vec<mpsc::Sender<Item<T>>>) {
        let (senders, receivers) = (0..streams).map(|_| mpsc::channel(4)).unzip();
        (Self(Mutex::new(receivers)), senders)
    }
}

impl<T: Object> ListerWatcher for Feed<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        let revisions = Revisions::Shared(Domain::new("bench"));
        Capabilities { streaming_list: true, revisions, ..Capabilities::default() }
    }

    async fn list(&self, _: ListRequest) -> Result<Page<T>, SourceError> {
        Err(SourceError::Fatal("it streams".to_owned()))
    }

    async fn watch(&self, _: Start) -> Result<Frames<T>, SourceError> {
        let stream = self.0.lock().expect("no holder panics").pop_front();
        let stream = stream.ok_or_else(|| SourceError::Fatal("it has ended".to_owned()))?;
        Ok(stream::unfold(stream, |mut stream| async { Some((stream.recv().await?, stream)) }).boxed())
    }
}

//! [`Gate`]: a way to an etcd that can be shut, and that can lose answers while requests go through.

use async_trait::async_trait;
use kstore_apiserver::storage::etcd::{Dial, Url, Wire};
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

/// Bytes on their way in one direction.
const PIPE: usize = 256 * 1024;

/// In front of another way.
pub struct Gate {
    inner: Arc<dyn Dial>,
    shut: AtomicBool,
    deaf: Arc<AtomicBool>,
    /// Ends the connections of now.
    cut: Mutex<CancellationToken>,
}

impl Gate {
    /// Open.
    pub fn new(inner: Arc<dyn Dial>) -> Arc<Self> {
        let (shut, deaf) = (AtomicBool::new(false), Arc::default());
        Arc::new(Self { inner, shut, deaf, cut: Mutex::default() })
    }

    /// Cuts every connection, and lets none through.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.cut.lock().expect("nobody panics with it")).cancel();
    }

    /// Lets connections and answers through again.
    pub fn open(&self) {
        self.deaf.store(false, Ordering::SeqCst);
        self.shut.store(false, Ordering::SeqCst);
    }

    /// From now on requests arrive and answers do not.
    pub fn lose_answers(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Dial for Gate {
    async fn dial(&self, member: &Url) -> io::Result<Box<dyn Wire>> {
        if self.shut.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (mut there_out, mut there_in) = tokio::io::split(self.inner.dial(member).await?);
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (mut here_out, mut here_in) = tokio::io::split(theirs);
        let (cut, deaf) = (self.cut.lock().expect("nobody panics with it").clone(), self.deaf.clone());
        let requests = async move { tokio::io::copy(&mut here_out, &mut there_in).await.map(drop) };
        let answers = async move {
            let mut buffer = vec![0; 16 * 1024];
            loop {
                let read = there_out.read(&mut buffer).await?;
                if read == 0 {
                    return Ok::<_, io::Error>(());
                }
                if !deaf.load(Ordering::SeqCst) {
                    here_in.write_all(&buffer[..read]).await?;
                }
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                _ = requests => {}
                _ = answers => {}
            }
        });
        Ok(Box::new(ours))
    }
}

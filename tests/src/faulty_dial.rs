//! [`FaultyDial`]: connections to an etcd that a test can cut, or whose answers it can lose while requests
//! still arrive.

use async_trait::async_trait;
use kstore_storage::storage::etcd::{Dial, Url, Wire};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

/// Buffer size of one direction, in bytes.
const PIPE: usize = 256 * 1024;

/// A [`Dial`] that wraps another one and injects faults.
pub struct FaultyDial {
    inner: Arc<dyn Dial>,
    shut: AtomicBool,
    loses_answers: Arc<AtomicBool>,
    /// Cancelled to end the current connections.
    cut: Mutex<CancellationToken>,
}

impl FaultyDial {
    /// Wraps a dial, without faults.
    pub fn new(inner: Arc<dyn Dial>) -> Arc<Self> {
        let (shut, loses_answers) = (AtomicBool::new(false), Arc::default());
        Arc::new(Self { inner, shut, loses_answers, cut: Mutex::default() })
    }

    /// Cuts every connection, and refuses new ones.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.cut.lock().expect("no holder panics")).cancel();
    }

    /// Restores connections and answers.
    pub fn open(&self) {
        self.loses_answers.store(false, Ordering::SeqCst);
        self.shut.store(false, Ordering::SeqCst);
    }

    /// Loses answers from now on; requests still arrive.
    pub fn lose_answers(&self) {
        self.loses_answers.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Dial for FaultyDial {
    async fn dial(&self, member: &Url) -> io::Result<Box<dyn Wire>> {
        if self.shut.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (mut there_out, mut there_in) = tokio::io::split(self.inner.dial(member).await?);
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (mut here_out, mut here_in) = tokio::io::split(theirs);
        let (cut, loses_answers) =
            (self.cut.lock().expect("no holder panics").clone(), self.loses_answers.clone());
        let requests = async move { tokio::io::copy(&mut here_out, &mut there_in).await.map(drop) };
        let answers = async move {
            let mut buffer = vec![0; 16 * 1024];
            loop {
                let read = there_out.read(&mut buffer).await?;
                if read == 0 {
                    return Ok::<_, io::Error>(());
                }
                if !loses_answers.load(Ordering::SeqCst) {
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

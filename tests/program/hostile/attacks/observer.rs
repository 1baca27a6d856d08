//! [`Observer`]: a supervisor that asks for `/livez`, and another tenant that writes, while an attack goes on. They have a thread
//! and a runtime of their own, since they would otherwise wait for the attacker's tasks.

use super::figures::Latencies;
use kstore_tests::Https;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

/// The pause between two requests of each.
const PAUSE: Duration = Duration::from_millis(50);

/// How long one request is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// The pause before a refused request is sent again.
const RETRY: Duration = Duration::from_millis(200);

/// Requests of each at least, however late they are answered.
const REQUESTS: usize = 5;

/// The observing thread.
pub(super) struct Observer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<[Latencies; 2]>,
}

impl Observer {
    /// Begins to observe. `write` is the complete request of a write, and `code` that of its answer.
    pub(super) fn begin(https: &Https, write: (Https, String), code: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (supervisor, is_over) = (https.without_certificate(), stop.clone());
        let livez = "GET /livez HTTP/1.1\r\nHost: kstore\r\nConnection: close\r\n\r\n".to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (livez, writes) = tokio::join!(
                    repeat(&supervisor, &livez, "200", &is_over),
                    repeat(&write.0, &write.1, code, &is_over)
                );
                [livez, writes].map(Latencies::of)
            })
        });
        Self { stop, thread }
    }

    /// Ends after the requests that are in flight. Returns the latencies of `/livez` and of writes.
    pub(super) async fn end(self) -> [Latencies; 2] {
        self.stop.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap()
    }
}

/// Repeats a request, each over a new connection. A refused one is sent again, as clients do, and counts until it is answered.
async fn repeat(https: &Https, request: &str, code: &str, is_over: &AtomicBool) -> Vec<Duration> {
    let mut durations = Vec::new();
    while durations.len() < REQUESTS || !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let answered = async {
            loop {
                let answer = send(https, request).await;
                if answer.split(' ').nth(1) == Some(code) {
                    return;
                }
                println!("refused: {}", answer.lines().next().unwrap_or("no answer"));
                sleep(RETRY).await;
            }
        };
        let is_answered = timeout(LONGEST, answered).await.is_ok();
        durations.push(if is_answered { asked.elapsed() } else { LONGEST });
        sleep(PAUSE).await;
    }
    durations
}

/// Sends a complete request and returns its answer, as far as it comes.
pub(super) async fn send(https: &Https, request: &str) -> String {
    let Ok(mut tls) = https.try_connect().await else { return String::new() };
    let _ = tls.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tls.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

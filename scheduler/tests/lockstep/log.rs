//! kube-scheduler as a child process, and what its log says of each attempt.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;

/// Lines that are read before the test takes them: some steps' worth.
const LINES: usize = 1 << 16;

/// How long the process may take for what it is expected to do. It takes milliseconds on a quiet machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The message.
    pub(crate) message: String,
    /// The values by key, unquoted.
    values: Vec<(String, String)>,
}

impl Line {
    /// Reads a line of klog's text format: a header that ends with `] `, a quoted message, and pairs `key=value`.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("] ")?;
        let (message, mut rest) = quoted(rest)?;
        let mut values = Vec::new();
        while let Some((key, value)) = rest.trim_start().split_once('=') {
            let (value, after) = match quoted(value) {
                Some(found) => found,
                None => {
                    let end = value.find(' ').unwrap_or(value.len());
                    (value[..end].to_owned(), &value[end..])
                }
            };
            values.push((key.to_owned(), value));
            rest = after;
        }
        Some(Self { message, values })
    }

    /// Whether the line is of use later.
    fn is_kept(&self) -> bool {
        self.is_of_change()
            || [ATTEMPT, BOUND, NO_FIT, NO_NODES, FAILED, UPDATING, TARGET, EVICTED].contains(&&*self.message)
    }

    /// Whether the line says that a change was seen.
    fn is_of_change(&self) -> bool {
        self.message.contains(" event for ")
    }

    /// Whether an attempt begins.
    pub(crate) fn is_attempt(&self) -> bool {
        self.message == ATTEMPT
    }

    /// The value of a key; empty if there is none.
    pub(crate) fn value(&self, key: &str) -> &str {
        self.values.iter().find(|(own, _)| own == key).map_or("", |(_, value)| value)
    }
}

/// The string in quotes at the begin of a text, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = stream.next()?.ok()?;
    Some((value, &text[stream.byte_offset()..]))
}

/// A running kube-scheduler, killed on drop.
pub(crate) struct KubeScheduler {
    child: Child,
    lines: mpsc::Receiver<Line>,
    /// Lines that were read and not taken.
    kept: Vec<Line>,
}

impl KubeScheduler {
    /// Starts the program beside an API server, with its files in `dir`.
    pub(crate) fn start(program: &str, kubeconfig: &Path, dir: &Path) -> Self {
        let config = dir.join("config.yaml");
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 1\n\
             leaderElection: {{leaderElect: false}}\n\
             clientConnection: {{kubeconfig: \"{}\", qps: 5000, burst: 5000}}\n",
            kubeconfig.display()
        );
        std::fs::write(&config, text).unwrap();
        let log = dir.join("kube-scheduler.log");
        let mut child = Command::new(program)
            .arg(format!("--config={}", config.display()))
            .args(["--secure-port=0", "--feature-gates=OpportunisticBatching=false"])
            .arg(format!("-v={}", std::env::var("KSTORE_LOCKSTEP_VERBOSITY").unwrap_or("5".to_owned())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel(LINES);
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            use std::io::Write as _;
            let mut copy = std::fs::File::create(log).unwrap();
            for text in stderr.lines().map_while(Result::ok) {
                let _ = writeln!(copy, "{text}");
                if let Some(line) = Line::parse(&text)
                    && sender.blocking_send(line).is_err()
                {
                    return;
                }
            }
        });
        Self { child, lines, kept: Vec::new() }
    }

    /// The next line that `is_wanted`; `None` if there is none within the time. Others stay.
    pub(crate) async fn take_within(
        &mut self,
        time: Duration,
        is_wanted: impl Fn(&Line) -> bool,
    ) -> Option<Line> {
        if let Some(at) = self.kept.iter().position(&is_wanted) {
            return Some(self.kept.remove(at));
        }
        let search = async {
            while let Some(line) = self.lines.recv().await {
                if is_wanted(&line) {
                    return Some(line);
                }
                if line.is_kept() {
                    self.kept.push(line);
                }
            }
            None
        };
        tokio::time::timeout(time, search).await.ok().flatten()
    }

    /// The next line that `is_wanted`, with patience.
    pub(crate) async fn take(&mut self, is_wanted: impl Fn(&Line) -> bool) -> Option<Line> {
        self.take_within(PATIENCE, is_wanted).await
    }

    /// Forgets which changes were seen.
    pub(crate) fn forget_changes(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            self.kept.push(line);
        }
        self.kept.retain(|line| line.is_kept() && !line.is_of_change());
    }
}

impl Drop for KubeScheduler {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pod that has a node is gone.
pub(crate) const DELETED: &str = "Delete event for scheduled pod";
/// An attempt begins.
const ATTEMPT: &str = "Attempting to schedule pod";
/// An attempt has ended with a bind.
pub(crate) const BOUND: &str = "Successfully bound pod to node";
/// An attempt has ended without a node.
pub(crate) const NO_FIT: &str = "Unable to schedule pod; no fit; waiting";
/// An attempt has ended without a node, since there is none.
pub(crate) const NO_NODES: &str = "Unable to schedule pod; no nodes are registered to the cluster; waiting";
/// An attempt has ended with an error.
pub(crate) const FAILED: &str = "Error scheduling pod; retrying";
/// The status of a refused pod is written.
pub(crate) const UPDATING: &str = "Updating pod condition and nominated node name";
/// A node for preemption was found.
pub(crate) const TARGET: &str = "the target node for the preemption is determined";
/// A victim was deleted.
pub(crate) const EVICTED: &str = "Preemptor Pod preempted victim Pod";

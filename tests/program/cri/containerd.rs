//! [`Containerd`]: a containerd of a test, in a network namespace of its own, with an image of busybox that needs no registry.

use kstore_tests::wait::until;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the programs of containerd, runc and the network plugins are installed.
const NEEDED: [&str; 4] = ["/usr/bin/containerd", "/usr/bin/ctr", "/usr/sbin/runc", "/usr/lib/cni/ptp"];
/// A busybox without libraries.
const BUSYBOX: &str = "/bin/busybox";
/// The image of the tests, with busybox under the names of its commands.
pub(super) const IMAGE: &str = "docker.io/library/box:1";
const PAUSE: &str = "registry.test/pause:1";
const COMMANDS: [&str; 18] = [
    "sh", "cat", "ls", "echo", "sleep", "id", "env", "wget", "nc", "httpd", "ps", "kill", "true", "false",
    "hostname", "touch", "seq", "yes",
];

/// A running containerd. It ends with its handle, and all of its containers with it.
pub(super) struct Containerd {
    child: Child,
    /// Holds the network namespace.
    holder: Child,
    pub(super) socket: PathBuf,
}

/// What this machine lacks for a containerd; `None`: nothing.
pub(super) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    let lacks = NEEDED.into_iter().chain([BUSYBOX]).find(|path| !Path::new(path).exists())?;
    Some(format!("needs containerd: {lacks} is not here"))
}

impl Containerd {
    /// Starts a containerd in `dir`, in a new network namespace that this thread and its later children are then in, too.
    pub(super) async fn start(dir: &Path) -> Self {
        let network = format!("{BUSYBOX} ip link set lo up; echo up; exec {BUSYBOX} sleep 100000");
        let mut holder = Command::new("unshare");
        let mut holder = holder.args(["--net", "sh", "-c", &network]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.take().unwrap()), &mut line)
            .unwrap();
        assert_eq!(line, "up\n");
        let namespace = File::open(format!("/proc/{}/ns/net", holder.id())).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        let at = |name: &str| dir.join(name);
        std::fs::create_dir_all(at("net.d")).unwrap();
        std::fs::write(at("config.toml"), config(dir)).unwrap();
        std::fs::write(at("net.d/10-test.conflist"), network_config(dir).to_string()).unwrap();
        let log = File::create(at("containerd.log")).unwrap();
        let mut command = Command::new("containerd");
        let child =
            command.arg("-c").arg(at("config.toml")).stderr(log).stdout(Stdio::null()).spawn().unwrap();
        let runtime = Self { child, holder, socket: at("c.sock") };
        until("containerd answers", async || {
            runtime.ctr(&["version"]).is_some_and(|out| out.contains("Server")).then_some(())
        })
        .await;
        for (name, entrypoint) in [(IMAGE, json!(["sh"])), (PAUSE, json!(["sleep", "100000"]))] {
            let archive = at("image.tar");
            write_image(&archive, name, &entrypoint);
            runtime.ctr(&["images", "import", archive.to_str().unwrap()]).unwrap();
        }
        runtime
    }

    /// The output of a command of `ctr`; `None` if it fails.
    pub(super) fn ctr(&self, args: &[&str]) -> Option<String> {
        let mut command = Command::new("ctr");
        command.arg("-a").arg(&self.socket).args(["-n", "k8s.io"]).args(args).stderr(Stdio::null());
        let out = command.output().unwrap();
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// The ids of all containers, sandboxes among them.
    pub(super) fn containers(&self) -> Vec<String> {
        let listed = self.ctr(&["containers", "ls", "-q"]).unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        for id in self.ctr(&["tasks", "ls", "-q"]).unwrap_or_default().lines() {
            self.ctr(&["tasks", "kill", "-s", "SIGKILL", id]);
            self.ctr(&["tasks", "rm", "-f", id]);
        }
        for child in [&mut self.child, &mut self.holder] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn config(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        r#"version = 2
root = "{dir}/root"
state = "{dir}/state"
[grpc]
  address = "{dir}/c.sock"
[ttrpc]
  address = "{dir}/t.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{dir}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
"#
    )
}

fn network_config(dir: &Path) -> Value {
    let ipam = json!({"type": "host-local", "dataDir": dir.join("ipam"), "ranges": [[{"subnet": "10.88.7.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]});
    json!({"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "ptp", "ipMasq": false, "ipam": ipam}]})
}

/// Writes an OCI archive of an image that has busybox alone.
fn write_image(archive: &Path, name: &str, entrypoint: &Value) {
    let mut layer = tar::Builder::new(Vec::new());
    let mut add = |path: &str, kind: tar::EntryType, mode: u32, data: &[u8], link: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(data.len() as u64);
        match link {
            "" => layer.append_data(&mut header, path, data).unwrap(),
            link => layer.append_link(&mut header, path, link).unwrap(),
        }
    };
    for folder in ["bin", "etc", "proc", "sys", "dev", "tmp", "var", "var/run"] {
        add(folder, tar::EntryType::Directory, 0o755, b"", "");
    }
    add("bin/busybox", tar::EntryType::Regular, 0o755, &std::fs::read(BUSYBOX).unwrap(), "");
    for command in COMMANDS {
        add(&format!("bin/{command}"), tar::EntryType::Symlink, 0o777, b"", "busybox");
    }
    let layer = layer.into_inner().unwrap();
    let digest =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let config = json!({"architecture": architecture(), "os": "linux", "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin", "OF_IMAGE=1"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", digest(&layer))]}});
    let config = config.to_string().into_bytes();
    let part = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": format!("sha256:{}", digest(bytes)), "size": bytes.len()});
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": part("application/vnd.oci.image.config.v1+json", &config),
        "layers": [part("application/vnd.oci.image.layer.v1.tar", &layer)]});
    let manifest = manifest.to_string().into_bytes();
    let mut entry = part("application/vnd.oci.image.manifest.v1+json", &manifest);
    entry["annotations"] = json!({"io.containerd.image.name": name});
    let index = json!({"schemaVersion": 2, "manifests": [entry]}).to_string().into_bytes();
    let mut out = tar::Builder::new(File::create(archive).unwrap());
    let mut put = |path: &str, data: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, path, data).unwrap();
    };
    put("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    put("index.json", &index);
    for blob in [layer, config, manifest] {
        put(&format!("blobs/sha256/{}", digest(&blob)), &blob);
    }
    out.finish().unwrap();
}

fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

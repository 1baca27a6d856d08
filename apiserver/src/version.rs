//! `/version`: the version of the Kubernetes API that is served. The server's own version is the build
//! metadata.

use serde_json::{Value, json};

/// The Kubernetes release whose API is served.
const MAJOR: &str = "1";
const MINOR: &str = "36";

/// The document of `/version`.
pub fn document() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "35",
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// The semantic version that clients parse: `v1.36.0+kstore-0.0.0`.
pub fn git_version() -> String {
    format!("v{MAJOR}.{MINOR}.0+kstore-{}", env!("CARGO_PKG_VERSION"))
}

/// The architecture, as Kubernetes names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

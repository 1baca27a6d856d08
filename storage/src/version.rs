//! `/version`: the version of the Kubernetes API that is served. The server's own version is the build
//! metadata.

use kstore_api::version::{MAJOR, Minor};
use serde_json::{Value, json};

/// The document of `/version` for a served version.
pub fn document(served: Minor) -> Value {
    let (major, minor) = (MAJOR.to_string(), served.number().to_string());
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": served.compatible().to_string(),
        "gitVersion": git_version(served),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture()),
    })
}

/// The semantic version that clients parse: that of the API, with the server's own as build metadata.
pub fn git_version(served: Minor) -> String {
    format!("{}+kstore-{}", served.programs(), env!("CARGO_PKG_VERSION"))
}

/// The architecture, as Kubernetes names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

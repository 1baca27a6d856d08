//! Logging to standard error, steered by RUST_LOG; warnings only if that is unset. Not metrics: those are the apiserver's.

use tracing_subscriber::EnvFilter;

/// Starts logging for the whole process. A second call does nothing, so that tests may call it freely.
pub(crate) fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    let _ =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).compact().try_init();
}

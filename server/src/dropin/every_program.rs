//! [`EVERY_PROGRAM`]: flags that all Kubernetes programs have and that the drop-in programs accept without effect.

use crate::args::{BOOL, Flag, accept};

/// Flags for logging, TLS, profiling and metrics that every Kubernetes program has.
pub(super) const EVERY_PROGRAM: &[Flag] = &[
    accept("profiling", BOOL, "true"),
    accept("contention-profiling", BOOL, "false"),
    accept("v", "Level", "0"),
    accept("vmodule", "pattern=N,...", ""),
    accept("logging-format", "string", "text"),
    accept("log-flush-frequency", "duration", "5s"),
    accept("log-json-info-buffer-size", "quantity", "0"),
    accept("log-json-split-stream", BOOL, "false"),
    accept("log-text-info-buffer-size", "quantity", "0"),
    accept("log-text-split-stream", BOOL, "false"),
    accept("tls-cipher-suites", "strings", ""),
    accept("tls-min-version", "string", "VersionTLS12"),
    accept("tls-curve-preferences", "strings", ""),
    accept("disable-http2-serving", BOOL, "false"),
    accept("permit-address-sharing", BOOL, "false"),
    accept("permit-port-sharing", BOOL, "false"),
    accept("allow-metric-labels", "stringToString", ""),
    accept("allow-metric-labels-manifest", "string", ""),
    accept("disabled-metrics", "strings", ""),
    accept("show-hidden-metrics-for-version", "string", ""),
];

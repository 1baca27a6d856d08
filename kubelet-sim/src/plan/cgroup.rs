//! The files of cgroup v2 in which a container finds its own limits. Pure.

use crate::amounts::Amounts;
use k8s_openapi::api::core::v1::ResourceRequirements;

/// The period of `cpu.max` in microseconds. A container may use the processor for its quota in each period.
const PERIOD: i64 = 100_000;
/// The smallest quota in microseconds.
const LEAST_QUOTA: i64 = 1_000;
/// The bounds of shares in cgroup v1, from which the weight of v2 is computed.
const SHARES: (i64, i64) = (2, 262_144);

/// The files that show the resources of a container: the path and the text. A limit that the container lacks is that of its pod.
pub fn files(
    own: Option<&ResourceRequirements>,
    pod: Option<&ResourceRequirements>,
) -> [(&'static str, String); 3] {
    let amounts = |of: Option<&ResourceRequirements>| Amounts::of(of.and_then(|all| all.limits.as_ref()));
    let (limits, of_pod) = (amounts(own), amounts(pod));
    let requests = Amounts::of(own.and_then(|all| all.requests.as_ref()));
    let or = |amount: i64, other: i64| if amount > 0 { amount } else { other };
    let (cpu, memory) = (or(limits.milli_cpu, of_pod.milli_cpu), or(limits.memory, of_pod.memory));
    let maximum = match cpu {
        ..=0 => "max".to_owned(),
        _ => cpu.saturating_mul(PERIOD / 1000).max(LEAST_QUOTA).to_string(),
    };
    let memory = match memory {
        ..=0 => "max\n".to_owned(),
        _ => format!("{memory}\n"),
    };
    [
        ("/sys/fs/cgroup/cpu.max", format!("{maximum} {PERIOD}\n")),
        ("/sys/fs/cgroup/cpu.weight", format!("{}\n", weight(or(requests.milli_cpu, cpu)))),
        ("/sys/fs/cgroup/memory.max", memory),
    ]
}

/// The weight of a container that requests so many thousandths of a processor.
fn weight(milli_cpu: i64) -> i64 {
    let (least, most) = SHARES;
    let shares = (milli_cpu.saturating_mul(1024) / 1000).clamp(least, most);
    1 + (shares - least) * 9999 / (most - least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_have_what_a_kubelet_asks_of_a_runtime() {
        let parse = |text: &str| serde_yaml_ng::from_str::<ResourceRequirements>(text).unwrap();
        let of = |own: &str, pod: &str| files(Some(&parse(own)), Some(&parse(pod))).map(|(_, text)| text);
        let lines = |maximum: &str, weight: &str, memory: &str| {
            [maximum, weight, memory].map(|line| format!("{line}\n"))
        };
        assert_eq!(of("{}", "{}"), lines("max 100000", "1", "max"));
        assert_eq!(
            of("{requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 250m, memory: 64Mi}}", "{}"),
            lines("25000 100000", "4", "67108864")
        );
        // Without a request the limit counts, and a tiny limit is the least that the kernel takes.
        assert_eq!(of("{limits: {cpu: 1}}", "{}"), lines("100000 100000", "39", "max"));
        assert_eq!(of("{limits: {cpu: 1m}}", "{}"), lines("1000 100000", "1", "max"));
        assert_eq!(of("{requests: {cpu: 1000}}", "{}"), lines("max 100000", "10000", "max"));
        assert_eq!(
            of("{limits: {memory: 1Mi}}", "{limits: {cpu: 500m, memory: 2Mi}}"),
            lines("50000 100000", "20", "1048576")
        );
        assert_eq!(files(None, None).map(|(_, text)| text), lines("max 100000", "1", "max"));
    }
}

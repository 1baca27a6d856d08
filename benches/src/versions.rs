//! What other versions of Kubernetes than the default one cost: the time from the start of the process to the first answer of `/readyz`
//! with each, and the resident memory of an API server of it beyond that of the default version, whose rows and types are statics. One
//! table of the program has all versions: its size is a row, too.

use crate::binary::Binary;
use crate::limits::STARTS;
use crate::measurement::Measurement;
use crate::process::{Server, Storage};
use crate::spread::Spread;
use crate::usage::resident_mebibytes;
use kstore_api::version::Minor;

/// Start and memory of each version, and the size of the program.
pub(crate) async fn measure(binary: Binary) -> anyhow::Result<Vec<Measurement>> {
    let bytes = std::fs::metadata(binary.path())?.len();
    let mut rows = vec![Measurement::new(
        "size of the program, all versions",
        "≤ 80 MiB",
        format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    )];
    let mut all = Vec::new();
    for minor in Minor::SERVED {
        let (ready, resident) = starts(&binary, minor).await?;
        rows.push(Measurement::new(
            format!("start to `/readyz`, in memory, new keys, Kubernetes {minor}"),
            "≤ 100 ms",
            ready.to_string(),
        ));
        all.push((minor, resident));
    }
    let default = all.iter().find(|(minor, _)| *minor == Minor::DEFAULT).map_or(0.0, |(_, own)| *own);
    rows.extend(all.into_iter().filter(|(minor, _)| *minor != Minor::DEFAULT).map(|(minor, resident)| {
        let what = format!("memory of an API server of {minor} beyond one of {}, median", Minor::DEFAULT);
        Measurement::new(what, "≤ 3 MiB", format!("{:.1} of {resident:.1} MiB", resident - default))
    }));
    Ok(rows)
}

/// The times of [`STARTS`] API servers of a version, and the median of their resident memory once they are ready, in MiB.
async fn starts(binary: &Binary, minor: Minor) -> anyhow::Result<(Spread, f64)> {
    let version = minor.to_string();
    let flags = ["--components", "apiserver", "--kubernetes-version", &version];
    let (mut ready, mut resident) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let server = Server::start_with(binary, Storage::Memory, &flags).await?;
        ready.push(server.ready_after);
        resident.push(resident_mebibytes(server.id()?)?);
        server.kill().await?;
    }
    resident.sort_by(f64::total_cmp);
    Ok((Spread::of(ready), resident[STARTS / 2]))
}

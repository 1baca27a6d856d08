//! kstore's informer beside kube-rs's reflector, in this process, on the same Pods: the cost of a cache
//! without network and decoding.
//!
//! Both sides get the same work in alternating rounds. The results are the minimum and the median of the
//! rounds, in wall time and CPU time; on a busy machine the minimum is the cost of the code. kube-rs's side
//! is its store's writer, called directly; kstore's is the whole informer, from the source's frames to the
//! cache and a subscriber, on one thread.

mod corpus;
mod kube;
mod latency;
pub mod memory;
mod ours;
mod queue;
mod rounds;

use crate::machine;
use corpus::{Pod, Slim};
use k8s_openapi::api::core::v1::Pod as KubePod;
use ours::{KstoreCache, with};
use rounds::{Recorder, Row};

/// Number of objects in the cache, a thousand per namespace.
const OBJECTS: usize = 100_000;
/// Updates per round.
const UPDATES: usize = 100_000;
/// Frames of one message of the source.
const BATCH: usize = 1_000;
/// Number of objects in the cache with many subscribers.
const SMALL: usize = 1_000;
/// Updates per round with many subscribers.
const CROWD_UPDATES: usize = 10_000;
/// Number of look-ups of a thousand objects per round.
const LOOK_UPS: usize = 20;

/// Measures and prints tables in Markdown; words of the command line select rows.
///
/// # Errors
///
/// A side fails a measurement.
pub fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    println!("{}; load average {}\n", machine::describe(), load());
    println!(
        "{OBJECTS} Pods, {} namespaces; messages of {BATCH} frames; {} rounds\n",
        OBJECTS / 1_000,
        rounds::ROUNDS
    );
    println!("{}", rounds::HEAD);
    for row in rows() {
        if words.is_empty() || words.iter().any(|word| row.name.contains(word.as_str())) {
            println!("{}", row.measure()?);
        }
    }
    if words.is_empty() || words.iter().any(|word| "latency".contains(word.as_str())) {
        println!("\n{}", latency::measure()?);
    }
    println!("\nload average {}", load());
    Ok(())
}

pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn rows() -> Vec<Row> {
    let mut rows = changes();
    rows.extend(crowds());
    rows.extend(reads());
    rows.extend([
        Row::new("queue: add, get, done", OBJECTS, |r| queue::cycle(r, OBJECTS)),
        Row::new("queue: add of a waiting key", OBJECTS, |r| queue::dedup(r, OBJECTS)),
        Row::new("queue: delayed add, get, done", OBJECTS, |r| queue::delayed(r, OBJECTS)),
    ]);
    rows
}

fn changes() -> Vec<Row> {
    let (pods, slims, theirs) = (ours::lazy::<Pod>(), ours::lazy::<Slim>(), kube::lazy());
    let (pods_again, slims_again) = (pods.clone(), slims.clone());
    vec![
        Row::new("initial list", OBJECTS, |r| ours::initial::<Pod>(r, OBJECTS))
            .beside(|r| kube::initial(r, OBJECTS)),
        Row::new("initial list, projected", OBJECTS, |r| ours::initial::<Slim>(r, OBJECTS)),
        Row::new("relist, unchanged", OBJECTS, |r| ours::relist::<Pod>(r, OBJECTS))
            .beside(|r| kube::relist(r, OBJECTS)),
        Row::new("update", UPDATES, move |r| with(&pods, OBJECTS, |o| ours::updates(o, r, UPDATES, false)))
            .beside(move |r| kube::with(&theirs, |t| kube::updates(t, r, UPDATES))),
        Row::new("update, projected", UPDATES, move |r| {
            with(&slims, OBJECTS, |o| ours::updates(o, r, UPDATES, false))
        }),
        Row::new("update, a view per 1000", UPDATES, move |r| {
            with(&pods_again, OBJECTS, |o| ours::updates(o, r, UPDATES, true))
        }),
        Row::new("update, a view per 1000, projected", UPDATES, move |r| {
            with(&slims_again, OBJECTS, |o| ours::updates(o, r, UPDATES, true))
        }),
    ]
}

/// Many subscribers of a small cache: the cost for the driver, and for the subscribers.
fn crowds() -> Vec<Row> {
    let small = ours::lazy::<Slim>();
    let stuck = |name, subscribers| {
        let small = small.clone();
        Row::new(name, CROWD_UPDATES, move |r| {
            with(&small, SMALL, |o| ours::stuck(o, r, CROWD_UPDATES, subscribers))
        })
    };
    let reading = |name, tasks| {
        let small = small.clone();
        Row::new(name, CROWD_UPDATES * tasks, move |r| {
            with(&small, SMALL, |o| ours::reading(o, r, CROWD_UPDATES, tasks))
        })
    };
    vec![
        stuck("crowd: update, one stuck subscriber", 0),
        stuck("crowd: update, 10 stuck subscribers", 10),
        stuck("crowd: update, 1000 stuck subscribers", 1_000),
        reading("crowd: update, 1 reading task", 1),
        reading("crowd: update × task, 10 reading tasks", 10),
        reading("crowd: update × task, 1000 reading tasks", 1_000),
    ]
}

fn reads() -> Vec<Row> {
    let (pods, theirs) = (ours::lazy::<Pod>(), kube::lazy());
    let of = |read: fn(&mut KstoreCache<Pod>, &mut Recorder) -> anyhow::Result<()>| {
        let pods = pods.clone();
        move |r: &mut Recorder| with(&pods, OBJECTS, |ours| read(ours, r))
    };
    let scan = |is_meant: fn(&KubePod, usize) -> bool| {
        let theirs = theirs.clone();
        move |r: &mut Recorder| kube::with(&theirs, |theirs| kube::scan(theirs, r, LOOK_UPS, is_meant))
    };
    let (theirs_get, theirs_list) = (theirs.clone(), theirs.clone());
    vec![
        Row::new("get, random", OBJECTS, of(ours::get))
            .beside(move |r| kube::with(&theirs_get, |t| kube::get(t, r))),
        Row::new("get from a view, random", OBJECTS, of(ours::get_from_view)),
        Row::new("view", OBJECTS, of(ours::view)),
        Row::new("list of all", 1, of(ours::list))
            .beside(move |r| kube::with(&theirs_list, |t| kube::list(t, r))),
        Row::new("namespace of 1000", LOOK_UPS, of(ours::namespaces)).beside(scan(|pod, n| {
            pod.metadata.namespace.as_deref() == Some(&corpus::namespace(n * corpus::PER_NAMESPACE))
        })),
        Row::new("index value of 1000", LOOK_UPS, of(ours::nodes)).beside(scan(|pod, n| {
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(&corpus::node(n))
        })),
    ]
}

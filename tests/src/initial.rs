//! Initial objects of simulated clusters, such as namespaces, roles and flow control. Creating them takes most
//! of a start in a build without optimisation, so the first cluster of a seed creates them and later ones share
//! them. Into a real etcd they are copied.

use crate::backing_store::Storage;
use crate::cluster::Cluster;
use crate::setup::{Loops, Setup};
use kstore_api::version::Minor;
use kstore_apiserver::ServerImage;
use kstore_store::StoreImage;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Number of images that a process keeps: those of seed 1, which most tests use, and of a few others.
const IMAGES: usize = 16;

/// A store with only initial objects, and an API server's memory of it.
pub(crate) struct InitialImage {
    pub(crate) store: StoreImage,
    pub(crate) server: ServerImage,
}

/// What initial objects and their revisions depend on.
type Origin = (Storage, u64, Minor);

/// The images of the process; the last used is last.
static KEPT: Mutex<VecDeque<(Origin, Arc<InitialImage>)>> = Mutex::new(VecDeque::new());

/// Returns the initial objects of a cluster; `None` if it creates its own. Blocks while they are created.
pub(crate) fn image(setup: &Setup) -> Option<Arc<InitialImage>> {
    let has_defaults = setup.service_ranges == Default::default() && setup.plugins.is_empty() && !setup.gangs;
    let is_shared = setup.shares_initial_objects && has_defaults;
    if !is_shared {
        return None;
    }
    let storage = match setup.storage {
        Storage::RealEtcd => Storage::Etcd,
        storage => storage,
    };
    let origin = (storage, setup.seed, setup.minor);
    if let Some(image) = find(origin) {
        return Some(image);
    }
    // On a thread of its own: the caller's runtime, whose order of tasks the seed determines, is the same
    // whether the image is found or made.
    let made = std::thread::spawn(move || make(origin)).join();
    let image = Arc::new(made.expect("an API server alone starts"));
    keep(origin, &image);
    Some(image)
}

fn find(origin: Origin) -> Option<Arc<InitialImage>> {
    let mut kept = KEPT.lock().expect("no holder panics");
    let at = kept.iter().position(|(of, _)| *of == origin)?;
    let found = kept.remove(at)?;
    kept.push_back(found.clone());
    Some(found.1)
}

fn keep(origin: Origin, image: &Arc<InitialImage>) {
    let mut kept = KEPT.lock().expect("no holder panics");
    if kept.len() == IMAGES {
        kept.pop_front();
    }
    kept.push_back((origin, image.clone()));
}

fn make((storage, seed, minor): Origin) -> InitialImage {
    let setup = Setup { loops: Loops::None, minor, ..Setup::seed(seed) };
    let setup = setup.on(storage).creates_initial_objects();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(async {
        let cluster = Cluster::start(setup).await;
        let image = cluster.initial_image();
        cluster.stop().await;
        image
    })
}

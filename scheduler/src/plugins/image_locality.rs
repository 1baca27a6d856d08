//! The plugin ImageLocality, a score: favors nodes that have the pod's images, the larger and the more widespread the better.

use crate::event::EventSet;
use crate::limits::MAX_NODE_SCORE;
use crate::node_state::NodeState;
use crate::plugin::{ExtensionPoint, Plugin, Row};
use crate::pod::PodInfo;
use crate::score::Candidates;

const MIB: i64 = 1024 * 1024;

/// Images below this size do not count.
const SMALLEST: i64 = 23 * MIB;

/// The size per container from which images count in full.
const LARGEST_PER_CONTAINER: i64 = 1000 * MIB;

/// The plugin.
#[derive(Default)]
pub(crate) struct ImageLocality;

impl Plugin for ImageLocality {
    type State<'a> = ();

    const ROW: &'static Row = &Row {
        name: "ImageLocality",
        points: &[ExtensionPoint::Score],
        weight: 1,
        reasons: &[],
        events: EventSet::NONE,
    };

    fn scores(&self, pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
        scores(pod, candidates)
    }
}

/// The scores, 0 to 100; `None` if no node has any of the images.
fn scores(pod: &PodInfo, candidates: &Candidates<'_>) -> Option<Vec<i64>> {
    let preferences = pod.preferences.as_ref()?;
    let nodes = candidates.snapshot.nodes().len();
    let images = &candidates.inventory.images;
    // The more nodes have an image, the less do its pods crowd on few of them.
    let share = |image: &str| images.nodes_with(image) as f64 / nodes as f64;
    let known: Vec<(f64, &String)> = preferences
        .images
        .iter()
        .map(|image| (share(image), image))
        .filter(|(share, _)| *share > 0.0)
        .collect();
    if known.is_empty() {
        return None;
    }
    let score = |node: &NodeState| {
        let sizes = known.iter().filter_map(|(share, image)| Some((share, *node.info().images.get(*image)?)));
        let sum = sizes.map(|(share, size)| (size as f64 * share) as i64).sum();
        scaled(sum, preferences.image_users)
    };
    Some(candidates.map(score))
}

fn scaled(sum: i64, users: usize) -> i64 {
    let largest = LARGEST_PER_CONTAINER * i64::try_from(users).unwrap_or(1).max(1);
    MAX_NODE_SCORE * (sum.clamp(SMALLEST, largest) - SMALLEST) / (largest - SMALLEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_images_count_nothing_and_large_ones_in_full() {
        assert_eq!([0, 23, 100, 500, 1000, 2000].map(|size| scaled(size * MIB, 1)), [0, 0, 7, 48, 100, 100]);
        assert_eq!(scaled(1000 * MIB, 2), 49);
    }
}

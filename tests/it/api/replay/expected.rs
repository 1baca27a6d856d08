//! The lines whose answers differ from the recorded ones, and why. Some differences are meant; the others are open, and their reasons say
//! what is missing here.

use std::collections::BTreeSet;

/// File, ids of its lines, reason.
pub(super) const DIFFERENCES: &[(&str, &[&str], &str)] = &[
    (
        "crd.jsonl",
        &[
            "crd-013",
            "crd-014",
            "crd-096",
            "crd-097",
            "crd-101",
            "crd-108",
            "crd-146",
            "crd-149",
            "crd-151",
            "crd-153",
            "lamps-create",
            "structural-10",
            "structural-11",
            "structural-20",
            "structural-25",
            "structural-30",
            "structural-38",
            "structural-48",
            "structural-49",
            "structural-52",
            "structural-58",
            "structural-59",
            "structural-60",
            "structural-61",
            "structural-62",
        ],
        "meant: names are granted and conditions set in the answer to the write itself; Kubernetes' controllers write them later",
    ),
    ("crd.jsonl", &["crd-106"], "meant: unknown fields are reported in alphabetical order"),
    ("crd.jsonl", &["crd-107"], "meant: names and conditions as above, unknown fields in alphabetical order"),
    ("crd.jsonl", &["crd-114"], "open: unknown fields are not warned of beside the refusal of a version"),
    ("crd.jsonl", &["crd-113"], "meant: the text names no Go package"),
    (
        "crd.jsonl",
        &[
            "crd-121", "crd-123", "crd-125", "crd-134", "crd-135", "crd-136", "crd-139", "crd-140",
            "crd-141", "crd-142", "crd-143", "crd-147", "crd-158", "crd-159", "crd-160", "crd-164",
            "crd-168",
        ],
        "meant: no controller of ours is a manager `kube-apiserver` of names and conditions, which belong to no manager",
    ),
    ("crd.jsonl", &["crd-124"], "meant: descriptions of columns are our own; managed fields as above"),
    (
        "crd.jsonl",
        &["crd-162"],
        "meant: a terminating definition takes no new object from the revision of its deletion on; Kubernetes' servers learn of it later",
    ),
    ("crd.jsonl", &["crd-163"], "meant: the refusal of new finalizers is said once"),
    (
        "custom-objects.jsonl",
        &["custom-objects-001", "custom-objects-198"],
        "meant: names and conditions in the answer to the write itself, recorded under no manager",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-058"],
        "open: the order or text of the errors about keys of labels and annotations",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-062"],
        "open: unknown fields are not warned of beside the refusal of a version",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-063"],
        "the recorder wrote JSON with spaces, which the text shows",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-068", "custom-objects-099"],
        "meant: errors of the JSON parser in its own words, not in Go's",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-073"],
        "YAML is compared as text; order and times of managed fields differ",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-097"],
        "open: the strategic merge patch is named among the types of patches taken",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-103", "custom-objects-106"],
        "open: a status write owns labels that it does not change",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-113"],
        "meant: members of an object in a text are in alphabetical order",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-114", "custom-objects-121"],
        "open: a scale of another name, or one that is applied, is taken",
    ),
    ("custom-objects.jsonl", &["custom-objects-117"], "open: the text of a method that scale does not have"),
    (
        "custom-objects.jsonl",
        &[
            "custom-objects-118",
            "custom-objects-123",
            "custom-objects-127",
            "custom-objects-129",
            "custom-objects-149",
            "custom-objects-186",
            "custom-objects-200",
            "custom-objects-202",
        ],
        "follows from custom-objects-103, -114 and -121: the object has another generation and managed fields; tables say `continue`",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-124", "custom-objects-125"],
        "ages are counted from the clock of the simulation; open: rows without objects have `object: null` in Kubernetes",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-139"],
        "open: no deprecation warning beside the 400 of a list",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-177"],
        "meant: the text about a uid names the resource, as those of other conflicts do",
    ),
    ("custom-objects.jsonl", &["custom-objects-181"], "meant: the refusal of new finalizers is said once"),
    (
        "custom-objects.jsonl",
        &["custom-objects-194", "custom-objects-195"],
        "meant: a POST to a named object is 405, whatever its body",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-203", "custom-objects-204"],
        "open: a member that became required is ratcheted, and the finalizer can go; Kubernetes refuses the write",
    ),
    (
        "custom-objects.jsonl",
        &["openapi-v1", "openapi-v1beta1-schemas"],
        "meant: descriptions of parameters are our own, and built-in models are those of the other documents, with defaults",
    ),
];

/// The ids listed for a file.
pub(super) fn listed(file: &str) -> BTreeSet<&'static str> {
    DIFFERENCES.iter().filter(|(own, _, _)| *own == file).flat_map(|(_, ids, _)| *ids).copied().collect()
}

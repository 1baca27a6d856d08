//! The lines whose answers differ from the recorded ones, and why. Some differences are meant; the others are open, and their reasons say
//! what is missing here.

use std::collections::BTreeSet;

/// File, ids of lines, and the line before which they are sent: Kubernetes took them before it had heard of policies that were written
/// before, which are in force here from the write on.
pub(super) const EARLY: &[(&str, &[&str], &str)] = &[
    ("policies.jsonl", &["policies-131", "policies-132", "policies-133"], "policies-109"),
    ("policies.jsonl", &["policies-241"], "policies-228"),
];

/// File and ids of lines that are not sent: they are refused by Kubernetes for a fault of its own and served here, and what follows would be
/// about another object. `custom-objects-121` applies a Scale, which Kubernetes cannot convert.
pub(super) const UNSENT: &[(&str, &[&str])] = &[("custom-objects.jsonl", &["custom-objects-121"])];

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
    (
        "crd.jsonl",
        &["crd-114"],
        "meant: an object of another version is refused without a look at its fields",
    ),
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
        "cel.jsonl",
        &[
            "cel-128",
            "compile-07",
            "compile-11",
            "compile-12",
            "compile-13",
            "compile-20",
            "compile-23",
            "compile-29",
            "compile-30",
            "compile-31",
            "compile-34",
            "compile-36",
            "compile-38",
            "compile-39",
            "compile-42",
            "compile-44",
            "compile-45",
            "compile-47",
            "compile-48",
            "compile-50",
            "compile-52",
            "compile-53",
            "compile-54",
            "compile-55",
            "compile-56",
            "compile-57",
            "compile-61",
            "compile-68",
            "compile-71",
            "good",
        ],
        "meant: names and conditions in the answer to the write itself",
    ),
    (
        "policies.jsonl",
        &["policies-200", "policies-201", "policies-261"],
        "meant: descriptions of columns are our own",
    ),
    (
        "policies.jsonl",
        &["policies-266"],
        "meant: mutating policies are stored as v1, not as v1beta1, which the hashes of storage versions say",
    ),
    ("webhooks.jsonl", &["webhooks-156"], "meant: descriptions of columns are our own"),
    (
        "webhooks.jsonl",
        &["webhooks-231"],
        "open: webhooks see a TokenRequest as it was sent, without defaults, metadata and empty status",
    ),
    ("webhooks.jsonl", &["webhooks-232"], "meant: an absent list is left out where Go writes null"),
    (
        "webhooks.jsonl",
        &["webhooks-234"],
        "open: defaults that Kubernetes makes by conversion to its internal version come after webhooks of the version of the request",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-001", "custom-objects-198"],
        "meant: names and conditions in the answer to the write itself, recorded under no manager",
    ),
    (
        "custom-objects.jsonl",
        &["custom-objects-062"],
        "meant: an object of another version is refused without a look at its fields",
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
        &["custom-objects-113"],
        "meant: members of an object in a text are in alphabetical order",
    ),
    ("custom-objects.jsonl", &["custom-objects-117"], "open: the text of a method that scale does not have"),
    (
        "custom-objects.jsonl",
        &["custom-objects-123", "custom-objects-127", "custom-objects-129"],
        "open: tables and lists of metadata have an empty `continue`, as lists of custom objects do",
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
    ("quota.jsonl", &["019-delete-b"], "open: an object that goes at once is shown without its deletion"),
    (
        "quota.jsonl",
        &["028-q2-quota-counts-status", "030-cm-b"],
        "meant: the recorded cluster made a second ConfigMap in each namespace by itself",
    ),
    ("quota.jsonl", &["033-svc-np"], "meant: a dry run tells an address and a port that could be had"),
    (
        "quota.jsonl",
        &["046-pvc-gold", "048-pvc-x"],
        "meant: a controller adds the finalizer of claims, not admission; the first StorageClass is the default here",
    ),
    ("quota.jsonl", &["050-role-1"], "meant: an empty list is kept where Go writes null"),
];

/// The user agents of recordings whose clients had one.
pub(super) const AGENTS: &[(&str, &str)] = &[("quota.jsonl", "rec")];

/// The ids listed for a file.
pub(super) fn listed(file: &str) -> BTreeSet<&'static str> {
    DIFFERENCES.iter().filter(|(own, _, _)| *own == file).flat_map(|(_, ids, _)| *ids).copied().collect()
}

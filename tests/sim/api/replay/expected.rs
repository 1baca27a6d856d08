//! Recorded requests whose answers differ from the recorded ones, with the reason. Differences marked `meant`
//! are intended; those marked `open` are gaps of kstore.

use std::collections::BTreeSet;

/// File, ids of lines, and the line before which they are sent. Kubernetes answered these requests before it
/// had observed earlier policies, which are in force here from their write on.
pub(super) const EARLY: &[(&str, &[&str], &str)] = &[
    ("policies.jsonl", &["policies-131", "policies-132", "policies-133"], "policies-109"),
    ("policies.jsonl", &["policies-241"], "policies-228"),
];

/// File, ids of its lines, reason of the difference.
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
    ("webhooks.jsonl", &["webhooks-156"], "meant: descriptions of columns are our own"),
    (
        "webhooks.jsonl",
        &["webhooks-231"],
        "open: webhooks see a TokenRequest as it was sent, without defaults, metadata and empty status",
    ),
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
    (
        "quota.jsonl",
        &["028-q2-quota-counts-status", "030-cm-b"],
        "meant: the recorded cluster made a second ConfigMap in each namespace by itself",
    ),
    ("quota.jsonl", &["033-svc-np"], "meant: a dry run reports an address and a port that are free"),
    ("quota.jsonl", &["048-pvc-x"], "meant: the first StorageClass is the default here"),
    ("limitrange.jsonl", &["024-pvc-ok"], "meant: there is a default StorageClass here"),
    (
        "podsecurity.jsonl",
        &[
            "065-base-apparmor-ann-unconfined",
            "066-base-apparmor-ann-default",
            "067-base-apparmor-ann-local",
            "169-restr-apparmor-ann-unconfined",
            "170-restr-apparmor-ann-default",
            "171-restr-apparmor-ann-local",
        ],
        "open: annotations of AppArmor do not become fields, and are not warned of",
    ),
    (
        "podsecurity.jsonl",
        &[
            "085-base-seccomp-ann",
            "189-restr-seccomp-ann",
            "262-latest-seccomp-ann",
            "273-v1.0-seccomp-ann",
            "284-v1.7-seccomp-ann",
            "295-v1.18-seccomp-ann",
            "306-v1.22-seccomp-ann",
            "317-v1.24-seccomp-ann",
            "328-v1.25-seccomp-ann",
            "339-v1.27-seccomp-ann",
            "350-v1.29-seccomp-ann",
            "361-v1.31-seccomp-ann",
            "372-v1.32-seccomp-ann",
            "383-v1.33-seccomp-ann",
            "394-v1.34-seccomp-ann",
            "405-v1.36-seccomp-ann",
            "416-v1.99-seccomp-ann",
        ],
        "open: annotations of seccomp are not warned of",
    ),
    ("admission.jsonl", &["035-pc-list"], "meant: texts and manager of built-in objects are our own"),
    ("admission.jsonl", &["055-pvc-no-default"], "meant: there is a default StorageClass here"),
    (
        "admission.jsonl",
        &["065-resize-unbound-grow", "070-resize-unbound-fixed"],
        "meant: the text about an immutable spec shows no difference of Go structs",
    ),
    (
        "admission.jsonl",
        &["106-csr-signed", "109-sign-bob"],
        "open: certificate requests have managed fields, which Kubernetes drops",
    ),
    (
        "admission.jsonl",
        &["105-unapprove", "110-sign-replace"],
        "meant: the cluster of the replay has no controllers, so that an approved request has no certificate that could not be changed",
    ),
    (
        "admission.jsonl",
        &["136-node-uid"],
        "meant: the taint of a node that has become ready is gone already; Kubernetes' controllers remove it later",
    ),
    ("admission.jsonl", &["139-kpod-mirror"], "uids in keys of managed fields are not in a normal form"),
    (
        "admission.jsonl",
        &[
            "164-tok-unbound",
            "165-tok-nouid",
            "168-tok-ok",
            "169-tok-other-pod",
            "170-tok-wrong-uid",
            "172-tok-audience",
        ],
        "the cluster of the replay signs no tokens",
    ),
    (
        "admission.jsonl",
        &["182-ns-delete-lease-dry"],
        "meant: texts and manager of built-in objects are our own",
    ),
];

/// The user agents of recordings whose clients sent one.
pub(super) const AGENTS: &[(&str, &str)] = &[
    ("quota.jsonl", "rec"),
    ("limitrange.jsonl", "rec"),
    ("podsecurity.jsonl", "rec"),
    ("admission.jsonl", "rec"),
];

/// Recordings about other admission plugins than ServiceAccount. The recorded server mounts a certificate
/// beside each token, which Kubernetes itself does not.
pub(super) const WITHOUT_TOKEN_VOLUMES: &[&str] =
    &["limitrange.jsonl", "podsecurity.jsonl", "admission.jsonl"];

/// Members of answers that depend on whether the namespace controller has acted yet, in Kubernetes too: file,
/// line and members.
pub(super) const RACES: &[(&str, &str, &[&str])] = &[
    (
        "admission.jsonl",
        "187-gone-patch",
        &["/metadata/deletionGracePeriodSeconds", "/metadata/deletionTimestamp"],
    ),
    ("admission.jsonl", "188-gone-delete-again", &["/metadata/managedFields", "/status/conditions"]),
];

/// The ids listed for a file.
pub(super) fn listed(file: &str) -> BTreeSet<&'static str> {
    DIFFERENCES.iter().filter(|(own, _, _)| *own == file).flat_map(|(_, ids, _)| *ids).copied().collect()
}

//! IP families of services on clusters with one family and with two.

use super::*;

const FOUR: &str = "10.96.0.0/12";
const SIX: &str = "fd00::/64";
const BOTH: &str = "10.96.0.0/12,fd00::/64";

/// The resulting policy and families, or the validation errors.
fn filled(ranges: &str, mut spec: Value, stored: Option<Value>) -> Result<(String, Value), Vec<String>> {
    let errors = fill_families(&ranges.parse().unwrap(), &mut spec, stored.as_ref());
    if errors.is_empty() {
        return Ok((text(&spec["ipFamilyPolicy"]).to_owned(), spec["ipFamilies"].clone()));
    }
    Err(errors.iter().map(|error| format!("{}: {}", error.field, error.body())).collect())
}

fn check(ranges: &str, spec: Value, policy: &str, families: &[&str]) {
    let got = filled(ranges, spec.clone(), None);
    assert_eq!(got, Ok((policy.to_owned(), json!(families))), "{ranges} {spec}");
}

fn refused(ranges: &str, spec: Value, stored: Option<Value>, wanted: &[&str]) {
    assert_eq!(filled(ranges, spec.clone(), stored).unwrap_err(), wanted, "{ranges} {spec}");
}

#[test]
fn a_new_service_gets_the_requested_families_that_the_cluster_has() {
    check(FOUR, json!({}), SINGLE, &["IPv4"]);
    check(SIX, json!({}), SINGLE, &["IPv6"]);
    check(BOTH, json!({}), SINGLE, &["IPv4"]);
    check(BOTH, json!({ "ipFamilies": ["IPv6"] }), SINGLE, &["IPv6"]);
    check(BOTH, json!({ "ipFamilyPolicy": REQUIRE }), REQUIRE, &["IPv4", "IPv6"]);
    check(BOTH, json!({ "ipFamilyPolicy": PREFER, "ipFamilies": ["IPv6"] }), PREFER, &["IPv6", "IPv4"]);
    check(FOUR, json!({ "ipFamilyPolicy": PREFER }), PREFER, &["IPv4"]);
    let named = json!({ "clusterIP": "fd00::9", "clusterIPs": ["fd00::9"] });
    check(BOTH, named, SINGLE, &["IPv6"]);
    let named = json!({ "clusterIP": "fd00::9", "clusterIPs": ["fd00::9"], "ipFamilyPolicy": REQUIRE });
    check(BOTH, named, REQUIRE, &["IPv6", "IPv4"]);
}

#[test]
fn headless_services_without_selector_have_both_families_on_any_cluster() {
    let names = json!({ "clusterIP": "None", "clusterIPs": ["None"] });
    check(FOUR, names, REQUIRE, &["IPv4", "IPv6"]);
    let names = json!({ "clusterIP": "None", "clusterIPs": ["None"], "ipFamilyPolicy": SINGLE });
    check(SIX, names, SINGLE, &["IPv6"]);
    let names = json!({ "clusterIP": "None", "clusterIPs": ["None"], "selector": { "a": "b" } });
    check(FOUR, names, SINGLE, &["IPv4"]);
}

#[test]
fn families_without_a_network_are_refused() {
    refused(
        FOUR,
        json!({ "ipFamilies": ["IPv6"], "ipFamilyPolicy": REQUIRE }),
        None,
        &[
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ],
    );
    refused(
        FOUR,
        json!({ "clusterIP": "fd00::9", "clusterIPs": ["fd00::9"] }),
        None,
        &["spec.clusterIPs[0]: Invalid value: [\"fd00::9\"]: IPv6 is not configured on this cluster"],
    );
    refused(
        BOTH,
        json!({ "clusterIP": "fd00::9", "clusterIPs": ["fd00::9", "10.96.0.9"] }),
        None,
        &[
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        ],
    );
    let names = json!({ "clusterIP": "None", "clusterIPs": ["None"], "selector": { "a": "b" }, "ipFamilies": ["IPv6"] });
    refused(
        FOUR,
        names,
        None,
        &["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"],
    );
}

fn dual(policy: &str) -> Value {
    json!({ "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9", "fd00::9"],
        "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": policy })
}

#[test]
fn a_service_changes_between_one_and_two_families_by_its_policy() {
    let mut single = dual(SINGLE);
    let errors = fill_families(&BOTH.parse().unwrap(), &mut single, Some(&dual(REQUIRE)));
    assert!(errors.is_empty());
    assert_eq!((&single["clusterIPs"], &single["ipFamilies"]), (&json!(["10.96.0.9"]), &json!(["IPv4"])));
    let back = json!({ "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilyPolicy": PREFER });
    let got = filled(BOTH, back, Some(single));
    assert_eq!(got, Ok((PREFER.to_owned(), json!(["IPv4", "IPv6"]))));
    let mut fewer = dual(REQUIRE);
    fewer["clusterIPs"] = json!(["10.96.0.9"]);
    let text = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP";
    refused(BOTH, fewer, Some(dual(REQUIRE)), &[text]);
}

#[test]
fn an_unchanged_prefer_dual_stack_service_keeps_its_families() {
    let one = json!({ "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": PREFER });
    let got = filled(BOTH, one.clone(), Some(one));
    assert_eq!(got, Ok((PREFER.to_owned(), json!(["IPv4"]))));
    let got = filled(FOUR, dual(PREFER), Some(dual(PREFER)));
    assert_eq!(got, Ok((PREFER.to_owned(), json!(["IPv4", "IPv6"]))));
}

#[test]
fn malformed_services_are_left_to_validation() {
    for spec in [
        json!(null),
        json!({ "type": "ExternalName" }),
        json!({ "ipFamilies": ["IPv5"] }),
        json!({ "ipFamilyPolicy": "x" }),
        json!({ "clusterIP": "x", "clusterIPs": ["x"] }),
        json!({ "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"] }),
        json!({ "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv6"] }),
    ] {
        let mut same = spec.clone();
        assert!(fill_families(&FOUR.parse().unwrap(), &mut same, None).is_empty());
        assert_eq!(same, spec);
    }
}

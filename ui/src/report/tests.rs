//! The writer against a plain model: a map of all states for each revision, and a reader that applies the edits.

use super::chunk::read;
use super::loss::{cut_values, without_managed_fields};
use super::*;
use std::collections::BTreeMap;

type States = BTreeMap<ObjectKey, Value>;

/// Numbers of a linear congruence.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Text that does not deflate.
    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'0' + u8::try_from(self.below(74)).unwrap())).collect()
    }
}

fn key(resource: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { resource: resource.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn row(key: &ObjectKey, text: &str) -> Value {
    json!({"k": key.resource, "n": key.namespace, "m": key.name, "t": text})
}

fn object(name: &str, revision: i64, value: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": revision.to_string(), "managedFields": [{"manager": value}]},
        "spec": {"value": value, "list": [{"name": "a", "x": revision % 3}]}})
}

/// A recording of random writes, with the states of all revisions. `size` is that of a value.
fn random(seed: u64, writes: i64, size: usize) -> (Recording, BTreeMap<i64, States>) {
    let mut numbers = Numbers(seed);
    let (mut states, mut all) = (States::new(), BTreeMap::new());
    let mut recording = Recording::new(100, vec![json!({"resource": "pods"})]);
    let keys: Vec<ObjectKey> = (0..12).map(|at| key("pods", ["a", "b"][at % 2], &format!("p{at}"))).collect();
    for known in &keys[..4] {
        states.insert(known.clone(), object(&known.name, 1, &numbers.text(size)));
        recording.row(row(known, "first"));
    }
    all.insert(100, states.clone());
    let mut lines = Vec::new();
    for revision in 101..=100 + writes {
        let own = &keys[usize::try_from(numbers.below(12)).unwrap()];
        let (effect, now) = match (states.contains_key(own), numbers.below(4)) {
            (true, 0) => ("deleted", Value::Null),
            (true, _) => ("updated", row(own, &revision.to_string())),
            (false, _) => ("created", row(own, "new")),
        };
        if effect == "deleted" {
            states.remove(own);
        } else {
            states.insert(own.clone(), object(&own.name, revision, &numbers.text(size)));
        }
        let is_outside = numbers.below(20) == 0;
        let mut line = json!({"r": revision, "o": [[own.resource, own.namespace, own.name, effect, now]]});
        if !is_outside {
            line["c"] = json!([revision - 1]);
        }
        lines.push((line, is_outside));
        all.insert(revision, states.clone());
    }
    lines.into_iter().for_each(|(line, is_outside)| recording.change(line, is_outside));
    for (key, state) in &all[&100] {
        recording.first_state(key.clone(), state.clone());
    }
    for (revision, key) in recording.awaited("pods") {
        recording.state(&key, revision, all[&revision][&key].clone());
    }
    assert_eq!(recording.unread(), 0);
    (recording, all)
}

/// What a reader makes of a file: states by revision and key, `None` where they are left out; and the meta data.
struct Read {
    meta: Value,
    rows: usize,
    first: States,
    states: BTreeMap<(i64, ObjectKey), Option<Value>>,
    effects: BTreeMap<i64, String>,
}

fn edited(mut value: Value, list: &[Value]) -> Value {
    for edit in list {
        let path = edit[0].as_array().unwrap();
        let mut place = &mut value;
        for (at, part) in path.iter().enumerate() {
            let is_removed = at + 1 == path.len() && edit.get(1).is_none();
            place = match part {
                Value::String(name) if is_removed => {
                    place.as_object_mut().unwrap().remove(name);
                    break;
                }
                Value::String(name) => {
                    place.as_object_mut().unwrap().entry(name.clone()).or_insert(Value::Null)
                }
                at => place.get_mut(usize::try_from(at.as_u64().unwrap()).unwrap()).unwrap(),
            };
        }
        if let Some(set) = edit.get(1) {
            *place = set.clone();
        }
    }
    value
}

fn decoded(data: &[u8]) -> Read {
    let chunks: BTreeMap<String, Vec<Value>> = read(data).into_iter().collect();
    let base = &chunks["base"];
    let first: States = base.iter().map(|line| (ObjectKey::of_list(line), line[3].clone())).collect();
    let (mut shown, mut states, mut effects) = (first.clone(), BTreeMap::new(), BTreeMap::new());
    for line in &chunks["changes"] {
        let revision = line["r"].as_i64().unwrap();
        for parts in line["o"].as_array().unwrap() {
            let key = ObjectKey::of_list(parts);
            effects.insert(revision, parts[3].as_str().unwrap().to_owned());
            let state = match &parts[5] {
                Value::Null => None,
                Value::Array(list) => Some(edited(shown[&key].clone(), list)),
                whole => Some(whole.clone()),
            };
            shown.extend(state.clone().map(|state| (key.clone(), state)));
            states.insert((revision, key), state);
        }
    }
    Read { meta: chunks["meta"][0].clone(), rows: chunks["rows"].len() - 1, first, states, effects }
}

fn lost(read: &Read, loss: Loss) -> u64 {
    let all = read.meta["leftOut"].as_array().unwrap();
    all.iter().find(|one| one["what"] == loss.text()).map_or(0, |one| one["count"].as_u64().unwrap())
}

#[test]
fn without_loss_a_reader_has_every_state_of_the_model() {
    for seed in 0..20 {
        let (recording, all) = random(seed, 120, 5);
        let read = decoded(&recording.data(&About::default(), 1 << 20).unwrap());
        assert_eq!((&read.first, &read.meta["from"]), (&all[&100], &json!(100)));
        assert_eq!(read.meta["leftOut"], json!([]));
        assert_eq!((read.rows, read.states.len()), (4, 120));
        for ((revision, key), state) in &read.states {
            assert_eq!(state.as_ref(), all[revision].get(key), "{revision} {key:?}");
        }
    }
}

/// A state as the file has it: perhaps without managed fields, perhaps with cut values.
fn is_reduced(found: &Value, expected: &Value) -> bool {
    let mut bare = expected.clone();
    without_managed_fields(&mut bare);
    let mut cut = bare.clone();
    cut_values(&mut cut);
    [expected, &bare, &cut].contains(&found) || {
        let mut whole = expected.clone();
        cut_values(&mut whole);
        *found == whole
    }
}

#[test]
fn a_file_of_any_size_keeps_to_its_bound_and_never_shows_a_wrong_state() {
    let (recording, all) = random(3, 300, 600);
    let whole = recording.data(&About::default(), 1 << 30).unwrap().len();
    let mut before = usize::MAX;
    for part in [100, 90, 70, 50, 40, 30, 20, 10, 5, 2] {
        let room = whole * part / 100;
        let data = recording.data(&About::default(), room).unwrap();
        assert!(data.len() <= room, "{part}");
        let read = decoded(&data);
        for ((revision, key), state) in &read.states {
            if let Some(state) = state {
                assert!(is_reduced(state, &all[revision][key]), "{part} {revision}");
            }
        }
        // Newest states stay as long as there are any.
        if lost(&read, Loss::NewestStates) == 0 {
            for (key, newest) in &all[&400] {
                let own = read.states.iter().rev().filter(|((_, own), _)| own == key).map(|(_, state)| state);
                let mut own = own;
                let own = own.next().cloned().unwrap_or_else(|| read.first.get(key).cloned()).unwrap();
                assert!(is_reduced(&own, newest), "{part} {key:?}");
            }
        }
        let known = read.states.values().flatten().count();
        assert!(known <= before, "{part}");
        before = known;
    }
    assert!(recording.data(&About::default(), 50).is_none(), "not even rows fit");
}

#[test]
fn changes_from_outside_keep_what_they_changed_when_all_else_between_is_gone() {
    let (recording, all) = random(7, 200, 300);
    let importance = Importance::of(&recording);
    let extent = Extent { losses: &ORDER, skipped: 0, has_states: true };
    let meta = |lost: &Lost, from: i64| recording.meta(&About::default(), lost, from);
    let read = decoded(&encode(&recording, &importance, extent, 1 << 30, meta).unwrap());
    assert!(lost(&read, Loss::Consequences) + lost(&read, Loss::EarlierStates) > 50);
    let mut shown = 0;
    for change in recording.changes.iter().filter(|change| change.is_outside) {
        let (revision, key) = (change.revision, &change.objects[0].key);
        if read.effects[&revision] != "updated" {
            continue;
        }
        assert!(is_reduced(read.states[&(revision, key.clone())].as_ref().unwrap(), &all[&revision][key]));
        let before = read.states.range(..(revision, key.clone())).rev().find(|((_, own), _)| own == key);
        let before = before.map_or(read.first.get(key), |(_, state)| state.as_ref()).unwrap();
        assert!(is_reduced(before, &all[&(revision - 1)][key]), "the state before #{revision}");
        shown += 1;
    }
    assert!(shown > 3, "{shown}");
}

#[test]
fn parts_go_in_their_order() {
    let (recording, _) = random(5, 200, 400);
    let importance = Importance::of(&recording);
    let meta = |lost: &Lost, from: i64| recording.meta(&About::default(), lost, from);
    let size = |number: usize| {
        let extent = Extent { losses: &ORDER[..number], skipped: 0, has_states: true };
        encode(&recording, &importance, extent, 1 << 30, meta).unwrap().len()
    };
    // A file that has room for what is left after three losses has these three only.
    let read = decoded(&recording.data(&About::default(), size(1)).unwrap());
    assert!(lost(&read, Loss::ManagedFields) > 0 && read.meta["leftOut"].as_array().unwrap().len() == 1);
    let all = decoded(&recording.data(&About::default(), size(ORDER.len())).unwrap());
    assert_eq!((lost(&all, Loss::Revisions), all.states.len()), (0, 200), "who wrote what stays");
    let fewer = decoded(&recording.data(&About::default(), size(ORDER.len()) - 1).unwrap());
    assert_eq!((lost(&fewer, Loss::Revisions), fewer.states.len()), (100, 100));
    assert_eq!(fewer.meta["from"], 200);
}

#[test]
fn heartbeats_earlier_events_and_other_namespaces_go_before_other_states() {
    let mut recording = Recording::new(1, Vec::new());
    let node = key("nodes", "", "n");
    let (event, quiet) = (key("events", "busy", "e"), key("pods", "quiet", "p"));
    let busy = key("pods", "busy", "p");
    let writes = [
        (&node, false),
        (&event, false),
        (&event, false),
        (&quiet, false),
        (&quiet, false),
        (&busy, true),
        (&quiet, false),
        (&quiet, false),
    ];
    for (at, (key, is_outside)) in (2..).zip(writes) {
        let line = json!({"r": at, "o": [[key.resource, key.namespace, key.name, "updated", row(key, "")]]});
        recording.change(line, is_outside);
    }
    let beat = |at: i64| json!({"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": at}]}});
    recording.first_state(node.clone(), beat(0));
    for (at, (key, _)) in (2..).zip(writes) {
        let state = if *key == node { beat(at) } else { json!({ "at": at }) };
        recording.state(key, at, state);
    }
    // The newest state of an object never goes, so each has one more.
    recording.change(json!({"r": 20, "o": [["nodes", "", "n", "updated", row(&node, "")]]}), false);
    recording.state(&node, 20, beat(20));
    let importance = Importance::of(&recording);
    let of = |at: usize, losses: &[Loss]| importance.loss(&recording.changes[at], (at, 0), losses);
    assert_eq!(of(0, &ORDER[..2]), Some(Loss::Heartbeats));
    assert_eq!((of(1, &ORDER[..2]), of(1, &ORDER[..3])), (None, Some(Loss::EarlierEvents)));
    assert_eq!((of(3, &ORDER[..3]), of(3, &ORDER[..4])), (None, Some(Loss::OtherNamespaces)));
    assert_eq!(of(6, &ORDER[..4]), Some(Loss::OtherNamespaces));
    assert_eq!([of(2, &ORDER), of(5, &ORDER), of(7, &ORDER), of(8, &ORDER)], [None; 4]);
}

#[test]
fn values_of_secrets_and_credentials_are_in_no_file() {
    let mut recording = Recording::new(1, Vec::new());
    let (secret, map) = (key("secrets", "a", "s"), key("configmaps", "a", "m"));
    for (at, key) in [(2, &secret), (3, &map)] {
        let line = json!({"r": at, "o": [[key.resource, "a", key.name, "updated", row(key, "")]]});
        recording.change(line, true);
    }
    recording.first_state(secret.clone(), json!({"data": {"p": "aHVudGVyMg=="}}));
    recording.state(&secret, 2, json!({"data": {"p": "aHVudGVyMw=="}}));
    recording.state(&map, 3, json!({"data": {"ca": "-----BEGIN CERTIFICATE-----"}}));
    let read = decoded(&recording.data(&About::default(), 1 << 20).unwrap());
    assert_eq!(read.first[&secret]["data"]["p"], "••• (7 bytes)");
    assert_eq!(read.states[&(2, secret)].as_ref().unwrap()["data"]["p"], "••• (7 bytes, set at #2)");
    assert!(!read.states[&(3, map)].as_ref().unwrap().to_string().contains("BEGIN"));
}

#[test]
fn states_that_did_not_come_are_counted_and_a_former_object_is_not_mixed_in() {
    let mut recording = Recording::new(1, Vec::new());
    let own = key("pods", "a", "p");
    for (at, effect) in [(2, "updated"), (3, "deleted"), (4, "created"), (5, "updated")] {
        recording.change(json!({"r": at, "o": [["pods", "a", "p", effect, null]]}), true);
    }
    recording.first_state(own.clone(), json!({"first": 1}));
    recording.state(&own, 5, json!({"second": 1}));
    recording.state(&own, 9, json!({"unknown": 1}));
    let about = About { output: "x".repeat(100_000), failure: "it failed".to_owned(), ..About::default() };
    let read = decoded(&recording.data(&about, 1 << 20).unwrap());
    assert_eq!(lost(&read, Loss::Unread), 2);
    assert_eq!(read.states[&(5, own)], Some(json!({"second": 1})));
    assert_eq!(read.meta["failure"], "it failed");
    assert_eq!(read.meta["output"].as_str().unwrap().len(), OUTPUT_BYTES + "…".len());
}

#[test]
fn a_file_is_within_five_mebibytes() {
    let mut recording = Recording::new(1, Vec::new());
    let mut numbers = Numbers(1);
    let text = numbers.text(1 << 20);
    for at in 2..9 {
        let own = key("configmaps", "a", &format!("m{at}"));
        recording
            .change(json!({"r": at, "o": [["configmaps", "a", own.name, "created", row(&own, "")]]}), true);
        recording.state(&own, at, json!({"data": {"v": format!("{at}{text}")}}));
    }
    let file = recording.write(&About { title: "t".to_owned(), ..About::default() }).unwrap();
    assert!(file.len() <= FILE_BYTES && file.starts_with(b"<!doctype html>"), "{}", file.len());
}

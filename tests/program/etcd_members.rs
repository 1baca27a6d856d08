//! Apiservers on a real etcd that changes at run time: concurrent writers at two servers, a killed leader, an
//! expired login. Real time.

use crate::etcd_storage::{map, maps, restrict, server, two};
use futures::StreamExt as _;
use futures::future::join_all;
use kstore_client::{Client, Patch, WatchParams};
use kstore_informer::{Frame, ListerWatcher as _, Revision, Start};
use kstore_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use kstore_storage::storage::etcd::{Config, User};
use kstore_tests::wait::{PATIENCE, until};
use kstore_tests::{Etcd, OnEtcd, etcd_config};
use serde_json::{Value, json};
use std::cell::Cell;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tonic::transport::Endpoint;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_acknowledged_by_one_server_is_read_at_once_at_the_other_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let Some(etcd) = Etcd::start(dir.path()) else { return };
    let (a, b) = two(&etcd).await;
    let writers = (0..8).map(|writer| {
        let (here, there) = if writer % 2 == 0 { (&a, &b) } else { (&b, &a) };
        async move {
            let name = format!("m{writer}");
            here.client().dynamic(maps()).create("default", &map(&name)).await.unwrap();
            for round in 0..25 {
                let value = json!(format!("{round}"));
                let patch = Patch::Merge(json!({"data": {"round": value}}));
                here.client().dynamic(maps()).patch("default", &name, "", &patch).await.unwrap();
                let rest = there.rest();
                let got = rest.call("GET", &format!("{MAPS}/{name}"), "").await.json();
                assert_eq!(got["data"]["round"], value, "a get of {name}");
                let list = rest.call("GET", MAPS, "").await.json();
                let items = list["items"].as_array().unwrap();
                let listed = items.iter().find(|item| item["metadata"]["name"] == name.as_str());
                assert_eq!(listed.unwrap()["data"]["round"], value, "{name} in a list");
            }
            let path = format!("{MAPS}/{name}");
            assert_eq!(here.rest().call("DELETE", &path, "").await.code, 200);
            assert_eq!(there.rest().call("GET", &path, "").await.code, 404);
        }
    });
    join_all(writers).await;
    tokio::join!(a.stop(), b.stop());
}

/// The outcome of a write, by its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WriteOutcome {
    Done,
    /// 503: the write was not applied and will not be.
    Refused,
    /// 504: the outcome is unknown, for this reason.
    Unknown(String),
}

/// Number of writes that each client does at least.
const WRITES: usize = 11;

/// Writes values that no other client writes, until stopped, and until enough are done.
async fn write(client: Client, name: String, ends: &Cell<bool>) -> Vec<(String, WriteOutcome)> {
    let mut answers: Vec<(String, WriteOutcome)> = Vec::new();
    let done = |answers: &[(String, WriteOutcome)]| {
        answers.iter().filter(|(_, answer)| *answer == WriteOutcome::Done).count()
    };
    while !ends.get() || done(&answers) < WRITES {
        let value = format!("{name}-{}", answers.len());
        let patch = Patch::Merge(json!({"data": {"v": value}}));
        let answer = match client.dynamic(maps()).patch("default", &name, "", &patch).await {
            Ok(_) => WriteOutcome::Done,
            Err(error) => match error.code() {
                Some(503) => WriteOutcome::Refused,
                Some(504) => WriteOutcome::Unknown(error.to_string()),
                _ => panic!("{value}: {error:?}"),
            },
        };
        answers.push((value, answer));
    }
    answers
}

/// Collects the values that a watch delivers, in order, up to the final one.
async fn follow(server: &OnEtcd) -> impl Future<Output = Vec<String>> + use<> {
    let seen = server.api.pipeline().cache().fresh().await.unwrap();
    let start = Start::After(Revision(u64::try_from(seen).unwrap()));
    let mut watch =
        server.client().dynamic(maps()).source(WatchParams::default()).watch(start).await.unwrap();
    async move {
        let mut delivered = Vec::new();
        while delivered.last().is_none_or(|last| last != "end") {
            for frame in watch.next().await.expect("the watch continues").unwrap() {
                let Frame::Put(object) = frame else { continue };
                delivered.extend(object.value()["data"]["v"].as_str().map(str::to_owned));
            }
        }
        delivered
    }
}

/// The index of the leading member, as soon as there is one.
async fn leader(members: &[Etcd]) -> usize {
    loop {
        for (index, member) in members.iter().enumerate() {
            if leads(member.url()).await == Some(true) {
                return index;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Whether a member leads; `None` if it does not answer.
async fn leads(url: &str) -> Option<bool> {
    let channel = Endpoint::new(url.to_owned()).unwrap().connect().await.ok()?;
    let status = MaintenanceClient::new(channel).status(pb::StatusRequest {}).await.ok()?.into_inner();
    Some(status.header?.member_id == status.leader)
}

#[tokio::test]
async fn killing_the_leader_loses_and_repeats_no_acknowledged_write() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut members) = Etcd::start_members(dir.path()) else { return };
    let urls = members.each_ref().map(Etcd::url);
    let (forth, back) = (etcd_config(&urls), etcd_config(&[urls[2], urls[0], urls[1]]));
    let (a, b) = tokio::join!(server(&forth), server(&back));
    let names: Vec<String> = (0..6).map(|n| format!("m{n}")).collect();
    for name in &names {
        let create = async || {
            let created = a.client().dynamic(maps()).create("default", &map(name)).await;
            let exists = created.as_ref().is_err_and(|error| error.is_already_exists());
            (created.is_ok() || exists).then_some(())
        };
        until(&format!("{name} is created"), create).await;
    }
    let watches = [tokio::spawn(follow(&a).await), tokio::spawn(follow(&b).await)];
    let ends = Cell::new(false);
    let writers = names.iter().enumerate().map(|(n, name)| {
        let client = if n % 2 == 0 { a.client() } else { b.client() };
        write(client, name.clone(), &ends)
    });
    let killer = async {
        for _ in 0..2 {
            sleep(Duration::from_millis(700)).await;
            let leader = leader(&members).await;
            members[leader].kill();
            sleep(Duration::from_secs(4)).await;
            members[leader].restart();
            sleep(Duration::from_secs(2)).await;
        }
        ends.set(true);
    };
    let writing = async { tokio::join!(join_all(writers), killer) };
    let (answers, ()) = timeout(PATIENCE, writing).await.expect("every writer has enough success");
    let last = Patch::Merge(json!({"data": {"v": "end"}}));
    // A busy machine may still elect a leader.
    let end = async || a.client().dynamic(maps()).patch("default", "m0", "", &last).await.ok();
    until("the last write is done", end).await;
    let [one, other] = timeout(PATIENCE, join_all(watches)).await.unwrap().try_into().unwrap();
    let (one, other): (Vec<String>, Vec<String>) = (one.unwrap(), other.unwrap());
    assert_eq!(one, other, "both deliver the same values in the same order");
    for answers in &answers {
        check_outcomes(answers, &one);
    }
    let unknown = answers.iter().flatten().filter(|(_, answer)| *answer != WriteOutcome::Done);
    let total: usize = answers.iter().map(Vec::len).sum();
    eprintln!("{total} writes, without success {:?}", unknown.collect::<Vec<_>>());
    tokio::join!(a.stop(), b.stop());
}

/// Compares the answers with the delivered values.
fn check_outcomes(answers: &[(String, WriteOutcome)], delivered: &[String]) {
    for (value, answer) in answers {
        let times = delivered.iter().filter(|delivered| *delivered == value).count();
        match answer {
            WriteOutcome::Done => assert_eq!(times, 1, "{value} was answered"),
            WriteOutcome::Refused => assert_eq!(times, 0, "{value} was refused"),
            WriteOutcome::Unknown(_) => assert!(times <= 1, "{value} happened {times} times"),
        }
    }
    let ours: Vec<&String> =
        delivered.iter().filter(|delivered| answers.iter().any(|(value, _)| value == *delivered)).collect();
    let in_order = answers.iter().map(|(value, _)| value).filter(|value| ours.contains(value));
    assert!(in_order.eq(ours.iter().copied()), "{ours:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expired_or_forgotten_login_is_renewed_transparently() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut etcd) = Etcd::start_forgetful(dir.path()) else { return };
    // The first caller waits until etcd is up.
    server(&etcd_config(&[etcd.url()])).await.stop().await;
    restrict(etcd.url(), "kube", "secret", "/other").await;
    let user = User { name: "kube".into(), password: "secret".into() };
    let config = Config { prefix: "/other".into(), user: Some(user), ..etcd_config(&[etcd.url()]) };
    let api = server(&config).await;
    api.client().dynamic(maps()).create("default", &map("m")).await.unwrap();
    let delivered = tokio::spawn(follow(&api).await);
    let set = async |value: &str| {
        let patch = Patch::Merge(json!({"data": {"v": value}}));
        let set = api.client().dynamic(maps()).patch("default", "m", "", &patch).await;
        assert!(set.is_ok(), "{value}: {set:?}");
    };
    let get = async || api.rest().call("GET", &format!("{MAPS}/m"), "").await.json()["data"]["v"].clone();
    set("fresh").await;
    // Writers hit the expired login, then readers.
    sleep(Duration::from_secs(3)).await;
    set("expired").await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(get().await, Value::from("expired"));
    // A restarted member has forgotten all logins, and ends watches too.
    etcd.restart();
    etcd.answers().await;
    set("forgotten").await;
    etcd.restart();
    etcd.answers().await;
    assert_eq!(get().await, Value::from("forgotten"));
    set("end").await;
    let delivered = timeout(PATIENCE, delivered).await.unwrap().unwrap();
    assert_eq!(delivered, ["fresh", "expired", "forgotten", "end"]);
    assert_eq!(api.rest().call("GET", "/readyz", "").await.code, 200);
    api.stop().await;
}

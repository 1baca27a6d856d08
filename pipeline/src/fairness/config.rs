//! FlowSchemas and PriorityLevelConfigurations as objects → the configuration that requests are served by.
//! Pure. The mandatory objects exist even if they are not stored.

use super::borrowing::LevelShares;
use super::matching::{Distinguisher, SchemaRules};
use super::queue_set::Limiting;
use kstore_api::flowcontrol::{level_of, mandatory};
use kstore_api::meta;
use kstore_api::object::{int, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the schema and of the level that have no limit.
pub(super) const EXEMPT: &str = "exempt";
/// Name of the schema and of the level for requests that no other schema matches.
pub(super) const CATCH_ALL: &str = "catch-all";

/// The configuration of one priority level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LevelConfig {
    pub(super) uid: String,
    pub(super) shares: LevelShares,
    pub(super) limiting: Limiting,
}

/// The configuration of one flow schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaConfig {
    pub(super) name: String,
    pub(super) uid: String,
    /// Name of its priority level, which exists.
    pub(super) level: String,
    precedence: i64,
    pub(super) distinguisher: Option<Distinguisher>,
    pub(super) rules: SchemaRules,
}

/// All levels by name, and all schemas in the order in which they are matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) levels: BTreeMap<String, LevelConfig>,
    pub(super) schemas: Vec<SchemaConfig>,
}

impl Config {
    /// Reads the stored objects. Schemas match by ascending precedence, then by name. A schema whose level does
    /// not exist matches nothing.
    pub(super) fn read(schemas: &[Arc<Value>], levels: &[Arc<Value>]) -> Self {
        let with_mandatory = |stored: &[Arc<Value>], kind: &str| {
            let missing = [EXEMPT, CATCH_ALL].into_iter().filter_map(|name| {
                let is_stored = stored.iter().any(|object| meta::name(object) == name);
                mandatory(name, kind).filter(|_| !is_stored).map(Arc::new)
            });
            stored.iter().map(sound).chain(missing).collect::<Vec<Arc<Value>>>()
        };
        let levels = with_mandatory(levels, "PriorityLevelConfiguration");
        let levels: BTreeMap<String, LevelConfig> =
            levels.iter().map(|level| (meta::name(level).to_owned(), read_level(level))).collect();
        let schemas = with_mandatory(schemas, "FlowSchema");
        let mut schemas: Vec<SchemaConfig> = schemas
            .iter()
            .map(|schema| read_schema(schema))
            .filter(|schema| levels.contains_key(&schema.level))
            .collect();
        schemas.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        Self { levels, schemas }
    }
}

/// The object; if it is mandatory, with the spec that validation requires. Something else may have been stored
/// past the API, and no request may be without a level.
fn sound(object: &Arc<Value>) -> Arc<Value> {
    let Some(fixed) = mandatory(meta::name(object), text(&object["kind"])) else { return object.clone() };
    let mut sound = Value::clone(object);
    if !sound["spec"].is_object() {
        sound["spec"] = Value::Object(serde_json::Map::new());
    }
    for (member, value) in fixed["spec"].as_object().into_iter().flatten() {
        // Users may set the seats of the exempt level.
        if member != "exempt" || !sound["spec"]["exempt"].is_object() {
            sound["spec"][member] = value.clone();
        }
    }
    Arc::new(sound)
}

fn read_schema(schema: &Value) -> SchemaConfig {
    let spec = &schema["spec"];
    SchemaConfig {
        name: meta::name(schema).to_owned(),
        uid: meta::uid(schema).to_owned(),
        level: level_of(schema).to_owned(),
        precedence: int(&spec["matchingPrecedence"]),
        distinguisher: match text(&spec["distinguisherMethod"]["type"]) {
            "ByUser" => Some(Distinguisher::ByUser),
            "ByNamespace" => Some(Distinguisher::ByNamespace),
            _ => None,
        },
        rules: SchemaRules::read(spec),
    }
}

fn read_level(level: &Value) -> LevelConfig {
    let spec = &level["spec"];
    let is_exempt = spec["type"] == "Exempt";
    let side = if is_exempt { &spec["exempt"] } else { &spec["limited"] };
    let number = |value: &Value| u32::try_from(int(value)).unwrap_or(0);
    let count = |value: &Value| usize::try_from(int(value)).unwrap_or(0).max(1);
    let response = &side["limitResponse"];
    let queuing = &response["queuing"];
    let limiting = match text(&response["type"]) {
        _ if is_exempt => Limiting::Exempt,
        "Queue" => Limiting::Queue {
            queues: count(&queuing["queues"]),
            hand: count(&queuing["handSize"]),
            length: count(&queuing["queueLengthLimit"]),
        },
        _ => Limiting::Reject,
    };
    let shares = LevelShares {
        shares: number(&side["nominalConcurrencyShares"]),
        lendable_percent: number(&side["lendablePercent"]).min(100),
        borrowing_percent: side["borrowingLimitPercent"]
            .as_i64()
            .map(|limit| u32::try_from(limit).unwrap_or(0)),
    };
    LevelConfig { uid: meta::uid(level).to_owned(), shares, limiting }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::flowcontrol;
    use serde_json::json;

    fn built_in() -> (Vec<Arc<Value>>, Vec<Arc<Value>>) {
        flowcontrol::objects().into_iter().map(Arc::new).partition(|object| object["kind"] == "FlowSchema")
    }

    #[test]
    fn schemas_are_matched_by_precedence_then_name() {
        let (mut schemas, levels) = built_in();
        for name in ["b", "a"] {
            let spec =
                json!({ "matchingPrecedence": 450, "priorityLevelConfiguration": { "name": "system" } });
            schemas.push(Arc::new(json!({ "metadata": { "name": name }, "spec": spec })));
        }
        let config = Config::read(&schemas, &levels);
        let names: Vec<&str> = config.schemas.iter().map(|schema| schema.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "exempt",
                "probes",
                "system-leader-election",
                "system-node-high",
                "a",
                "b",
                "system-nodes",
                "kube-controller-manager",
                "kube-scheduler",
                "kube-system-service-accounts",
                "service-accounts",
                "global-default",
                "catch-all"
            ]
        );
        assert_eq!(config.levels["exempt"].limiting, Limiting::Exempt);
        assert_eq!(config.levels["catch-all"].limiting, Limiting::Reject);
        let queues = Limiting::Queue { queues: 128, hand: 6, length: 50 };
        assert_eq!(config.levels["workload-low"].limiting, queues);
    }

    #[test]
    fn mandatory_objects_exist_without_being_stored() {
        let config = Config::read(&[], &[]);
        let names: Vec<&str> = config.schemas.iter().map(|schema| schema.name.as_str()).collect();
        assert_eq!(names, ["exempt", "catch-all"]);
        assert_eq!(config.levels.keys().collect::<Vec<_>>(), ["catch-all", "exempt"]);
    }

    #[test]
    fn mandatory_objects_that_were_stored_past_the_api_have_their_fixed_spec() {
        let (mut schemas, mut levels) = built_in();
        for object in schemas.iter_mut().chain(&mut levels) {
            if meta::name(object) == CATCH_ALL {
                let broken = json!({ "priorityLevelConfiguration": { "name": "none" }, "type": "Exempt", "limited": 5 });
                Arc::make_mut(object)["spec"] = broken;
            }
        }
        let config = Config::read(&schemas, &levels);
        assert_eq!(config.schemas.last().unwrap().level, CATCH_ALL);
        assert_eq!(config.levels[CATCH_ALL].limiting, Limiting::Reject);
    }

    #[test]
    fn schemas_of_missing_levels_match_nothing() {
        let spec = json!({ "matchingPrecedence": 5, "priorityLevelConfiguration": { "name": "none" } });
        let config = Config::read(&[Arc::new(json!({ "metadata": { "name": "lost" }, "spec": spec }))], &[]);
        assert!(config.schemas.iter().all(|schema| schema.name != "lost"));
    }
}

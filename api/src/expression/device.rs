//! CEL expressions that select devices: [`Selector`] over a [`DeviceValue`]. Device classes and resource claims
//! contain them; validation compiles them, and schedulers evaluate them.

use super::limits::CALL_COST;
use super::{base, quantity, row, semver};
use crate::quantity::Quantity;
use kstore_cel::{Env, Library, Map, Object, SizeEstimate, SizeProvider, Type, TypeProvider, Val};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Name of the type of the variable `device`.
const TYPE: &str = "kubernetes.DRADevice";

/// Most code points of a domain and of a driver's name.
const DOMAIN_MAX: u64 = 63;
/// Most code points of the name of an attribute or capacity.
const ID_MAX: u64 = 32;
/// Most code points of an attribute's value.
const VALUE_MAX: u64 = 64;
/// Most attributes and capacities of a device.
const ENTRIES_MAX: u64 = 32;

/// Value of an attribute of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `string`.
    String(String),
    /// `version`: a semantic version.
    Version(String),
}

/// A device as selectors see it. Cloning is cheap.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceValue(Val<'static>);

impl DeviceValue {
    /// The device of a driver with these attributes and capacities. Names without a domain are in the domain of
    /// the driver. An attribute with an invalid version is left out.
    #[must_use]
    pub fn new<'n>(
        driver: &str,
        allows_multiple_allocations: bool,
        attributes: impl IntoIterator<Item = (&'n str, &'n AttributeValue)>,
        capacities: impl IntoIterator<Item = (&'n str, Quantity)>,
    ) -> Self {
        let attributes = attributes.into_iter().filter_map(|(name, value)| {
            let value = match value {
                AttributeValue::Bool(value) => Val::Bool(*value),
                AttributeValue::Int(value) => Val::Int(*value),
                AttributeValue::String(text) => Val::string(text.as_str()),
                AttributeValue::Version(text) => semver::value(text)?,
            };
            Some((name, value))
        });
        let capacities = capacities.into_iter().map(|(name, value)| (name, row::value(value)));
        let fields = [
            ("driver", Val::string(driver)),
            ("allowMultipleAllocations", Val::Bool(allows_multiple_allocations)),
            ("attributes", by_domain(driver, attributes)),
            ("capacity", by_domain(driver, capacities)),
        ];
        let fields = fields.into_iter().map(|(name, value)| (Arc::from(name), value));
        Self(Val::Object(Object::Owned(Arc::from(TYPE), Arc::new(fields.collect()))))
    }
}

/// The values by domain and name. Every other domain has an empty map, so that expressions need not check
/// whether a device has values of a domain.
fn by_domain<'n>(driver: &str, values: impl Iterator<Item = (&'n str, Val<'static>)>) -> Val<'static> {
    let mut domains: BTreeMap<String, Vec<(Val<'static>, Val<'static>)>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        domains.entry(domain.to_owned()).or_default().push((Val::string(id), value));
    }
    let map = |entries: Vec<_>| Map::new(entries).expect("strings are valid keys");
    let domains = domains.into_iter().map(|(domain, ids)| (Val::string(domain), Val::Map(map(ids))));
    Val::Map(map(domains.collect()).with_default(Val::Map(map(Vec::new()))))
}

/// Fields of the type of `device`, and the sizes of their parts.
struct DeviceType;

impl TypeProvider for DeviceType {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let by_domain = |value| Type::map(Type::String, Type::map(Type::String, value));
        match field {
            _ if type_name != TYPE => None,
            "driver" => Some(Type::String),
            "allowMultipleAllocations" => Some(Type::Bool),
            "attributes" => Some(by_domain(Type::Dyn)),
            "capacity" => Some(by_domain(quantity::ty())),
            _ => None,
        }
    }

    fn has_type(&self, type_name: &str) -> bool {
        type_name == TYPE
    }
}

impl SizeProvider for DeviceType {
    fn size(&self, path: &[Arc<str>], _ty: &Type) -> Option<SizeEstimate> {
        let path: Vec<&str> = path.iter().map(|part| &**part).collect();
        let ["device", field, parts @ ..] = &path[..] else { return None };
        let max = match (*field, parts) {
            ("driver", []) => DOMAIN_MAX,
            ("allowMultipleAllocations", []) => 1,
            ("attributes" | "capacity", [] | ["@items" | "@values"]) => ENTRIES_MAX,
            ("attributes" | "capacity", ["@keys"]) => DOMAIN_MAX,
            ("attributes" | "capacity", [_, "@keys"]) => ID_MAX,
            ("attributes", [_, _]) => VALUE_MAX,
            ("attributes" | "capacity", [_]) => ENTRIES_MAX,
            _ => return None,
        };
        Some(SizeEstimate { min: 0, max })
    }
}

fn environment() -> &'static Env {
    static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
        let builder = base::environment().extend().library(Library::Bind).types(Arc::new(DeviceType));
        builder.variable("device", Type::object(TYPE)).build()
    });
    &ENVIRONMENT
}

/// Compiled expression that selects devices.
#[derive(Debug)]
pub struct Selector {
    program: kstore_cel::Program,
    cost: u64,
}

impl Selector {
    /// Compiles an expression over the variable `device`.
    ///
    /// # Errors
    /// The syntax and type errors of the expression, in Kubernetes' words.
    pub fn compile(text: &str) -> Result<Self, String> {
        let checked =
            environment().compile(text).map_err(|errors| format!("compilation failed: {errors}"))?;
        match checked.result_type() {
            Type::Bool | Type::Dyn => {}
            other => return Err(format!("must evaluate to bool or the unknown type, not {other}")),
        }
        let cost = checked.estimate(&DeviceType).max;
        let program = checked.program().map_err(|error| format!("program instantiation failed: {error}"))?;
        Ok(Self { program, cost })
    }

    /// Whether an evaluation may cost more than the limit for one selector.
    #[must_use]
    pub fn is_too_complex(&self) -> bool {
        self.cost > CALL_COST
    }

    /// Whether the expression selects a device.
    ///
    /// # Errors
    /// The evaluation fails or costs too much, or the value is not boolean.
    pub fn matches(&self, device: &DeviceValue) -> Result<bool, String> {
        let (value, _) = self.program.eval(&[("device", device.0.clone())], CALL_COST);
        match value {
            Ok(Val::Bool(is_match)) => Ok(is_match),
            Ok(other) => {
                Err(format!("CEL result of type {} could not be converted to bool", other.type_name()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu() -> DeviceValue {
        let attributes = [
            ("model", AttributeValue::String("a100".to_owned())),
            ("index", AttributeValue::Int(3)),
            ("ready", AttributeValue::Bool(true)),
            ("driverVersion", AttributeValue::Version("11.1.42".to_owned())),
            ("other.example.com/model", AttributeValue::String("x".to_owned())),
        ];
        let memory = Quantity::parse("40Gi").unwrap();
        let attributes = attributes.iter().map(|(name, value)| (*name, value));
        DeviceValue::new("gpu.example.com", false, attributes, [("memory", memory)])
    }

    fn matches(text: &str) -> Result<bool, String> {
        Selector::compile(text)?.matches(&gpu())
    }

    #[test]
    fn selectors_read_the_driver_and_attributes_and_capacities_by_domain() {
        for text in [
            "device.driver == 'gpu.example.com'",
            "device.attributes['gpu.example.com'].model == 'a100'",
            "device.attributes['gpu.example.com'].index > 2 && device.attributes['gpu.example.com'].ready",
            "device.attributes['other.example.com'].model == 'x'",
            "device.attributes['gpu.example.com'].ready",
            "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) == 0",
            "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('10Gi'))",
            "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('11.1.0'))",
            "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.model == 'a100' && gpu.index == 3)",
            "!device.allowMultipleAllocations",
            "'gpu.example.com' in device.attributes && !('none.example.com' in device.attributes)",
            "'model' in device.attributes['gpu.example.com']",
            "device.attributes.exists(domain, domain == 'other.example.com')",
        ] {
            assert_eq!(matches(text), Ok(true), "{text}");
        }
    }

    #[test]
    fn a_domain_without_values_is_an_empty_map_and_a_missing_name_is_an_error() {
        assert_eq!(matches("has(device.attributes['none.example.com'].model)"), Ok(false));
        assert_eq!(matches("'model' in device.attributes['none.example.com']"), Ok(false));
        assert_eq!(matches("size(device.capacity['none.example.com']) == 0"), Ok(true));
        assert_eq!(matches("size(device.attributes) == 2"), Ok(true));
        let error = matches("device.attributes['gpu.example.com'].nothing == 'x'").unwrap_err();
        assert!(error.contains("no such key: nothing"), "{error}");
    }

    #[test]
    fn expressions_with_unknown_names_or_another_type_do_not_compile() {
        for (text, error) in [
            ("device.", "compilation failed: "),
            ("device.name == 'x'", "undefined field 'name'"),
            ("pod.name == 'x'", "undeclared reference to 'pod'"),
            ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ] {
            let found = Selector::compile(text).unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        let error = matches("device.attributes['gpu.example.com'].model").unwrap_err();
        assert!(error.contains("could not be converted to bool"), "{error}");
    }

    #[test]
    fn an_expression_is_too_complex_by_its_estimated_cost() {
        let simple = Selector::compile("device.attributes['a.b'].c == 'x' && device.driver == 'd'").unwrap();
        assert!(!simple.is_too_complex(), "{}", simple.cost);
        let nested = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, \
                      device.attributes.all(d, a + b + c + d != ''))))";
        assert!(Selector::compile(nested).unwrap().is_too_complex());
    }
}

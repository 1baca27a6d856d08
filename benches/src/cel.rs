//! CEL in this process: the cost of evaluating a rule and one step of a loop, and of compiling a text with
//! its cost estimate; then the same through schemas of custom resources. Results for people, beside the goals
//! and without a verdict, since nanoseconds are unreliable on a shared machine. Run by `cargo bench -p
//! kstore-benches --bench cel`.

use crate::custom::definition;
use crate::limits::{CEL_BATCH, CEL_BATCHES, VISIBLE_RULES};
use crate::machine;
use crate::measurement::{self, Measurement};
use anyhow::Context;
use kstore_api::crd::validate::create;
use kstore_api::crd::{Definition, strategy};
use kstore_api::structural::Tree;
use kstore_cel::{
    Env, EnvBuilder, FieldShape, Library, ListKind, ObjectShape, Program, Shape, Type, TypeProvider,
    UnknownSizes,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;

/// Prints the table of results.
///
/// # Errors
///
/// A rule of the measurements does not compile or does not hold.
pub fn main() -> anyhow::Result<()> {
    println!("{}\n\n{}", machine::describe(), measurement::HEAD);
    let document = json!({"replicas": 3, "name": "web-1", "host": "web.example.com", "mode": "Fast"});
    let scalars = [
        "self.replicas >= 1 && self.replicas <= 100",
        "self.name.startsWith('web')",
        "!has(self.mode) || self.mode in ['Fast', 'Slow']",
        "self.name != '' && (self.replicas > 1 || self.mode == 'Slow')",
    ];
    for text in scalars {
        let program = compile(text)?;
        let shape = Shape::Object(shape());
        let nanoseconds = nanoseconds(|| evaluate(&program, &shape, &document))?;
        println!("{}", Measurement::new(format!("`{text}`"), "≤ 400 ns", format!("{nanoseconds:.0} ns")));
    }
    for (text, what) in [
        ("self.numbers.all(n, n > 0)", "numbers"),
        ("self.ports.all(p, p.port > 0)", "objects"),
        ("self.ports.map(p, p.port).size() > 0", "objects, collected"),
    ] {
        let step = loop_step(text)?;
        println!(
            "{}",
            Measurement::new(format!("a step of `{text}` ({what})"), "≤ 60 ns", format!("{step:.0} ns"))
        );
    }
    let environment = environment();
    for text in scalars.into_iter().chain(["self.ports.all(p, p.port > 0 && p.port < 65536)"]) {
        let compiled = nanoseconds(|| {
            let checked = environment.compile(text)?;
            black_box(checked.estimate(&UnknownSizes));
            black_box(checked.program()?);
            Ok(())
        })?;
        let what = format!("`{text}` parsed, checked, estimated, planned");
        println!("{}", Measurement::new(what, "≤ 30 µs", format!("{:.1} µs", compiled / 1e3)));
    }
    schemas()
}

/// Measures rules in the schemas of definitions.
fn schemas() -> anyhow::Result<()> {
    let mut crd = definition::with_rules(0, VISIBLE_RULES);
    strategy::set_defaults(&mut crd);
    strategy::prepare_create(&mut crd);
    let judged = nanoseconds(|| {
        anyhow::ensure!(create(&crd).is_empty(), "the definition is invalid: {:?}", create(&crd));
        Ok(())
    })?;
    let what = format!("a definition with {VISIBLE_RULES} rules judged");
    println!("{}", Measurement::new(what, "", format!("{:.0} µs", judged / 1e3)));
    let compiled = nanoseconds(|| {
        black_box(Definition::compile(&crd)?);
        Ok(())
    })?;
    let what = format!("a definition with {VISIBLE_RULES} rules compiled, without its rules");
    println!("{}", Measurement::new(what, "", format!("{:.0} µs", compiled / 1e3)));
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let object = definition::object_with_parts(VISIBLE_RULES);
    let first = nanoseconds(|| {
        black_box(Arc::new(Tree::compile(schema)?).validate_rules(&object, None));
        Ok(())
    })?;
    let what = format!("schema and programs of {VISIBLE_RULES} rules, for the first object");
    println!("{}", Measurement::new(what, "", format!("{:.0} µs", first / 1e3)));
    let tree = Arc::new(Tree::compile(schema)?);
    let all = nanoseconds(|| {
        let report = tree.validate_rules(&object, None);
        anyhow::ensure!(report.errors.is_empty(), "{:?}", report.errors);
        Ok(())
    })?;
    let what = format!("a rule of an object with {VISIBLE_RULES} rules on as many nodes");
    println!("{}", Measurement::new(what, "≤ 400 ns", format!("{:.0} ns", all / VISIBLE_RULES as f64)));
    Ok(())
}

/// The object type of the measured rules.
struct Types;

fn shape() -> Arc<ObjectShape> {
    let field = |key: &str, shape| (Box::from(key), FieldShape { key: Box::from(key), shape });
    let port = Arc::new(ObjectShape::new("port", [field("name", Shape::String), field("port", Shape::Int)]));
    let ports = Shape::List(Arc::new(Shape::Object(port)), ListKind::Ordered);
    let numbers = Shape::List(Arc::new(Shape::Int), ListKind::Ordered);
    Arc::new(ObjectShape::new(
        "spec",
        [
            field("replicas", Shape::Int),
            field("name", Shape::String),
            field("host", Shape::String),
            field("mode", Shape::String),
            field("numbers", numbers),
            field("ports", ports),
        ],
    ))
}

impl TypeProvider for Types {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        Some(match (type_name, field) {
            ("spec", "replicas") | ("port", "port") => Type::Int,
            ("spec", "name" | "host" | "mode") | ("port", "name") => Type::String,
            ("spec", "numbers") => Type::list(Type::Int),
            ("spec", "ports") => Type::list(Type::object("port")),
            _ => return None,
        })
    }

    fn has_type(&self, type_name: &str) -> bool {
        matches!(type_name, "spec" | "port")
    }
}

fn environment() -> Env {
    let builder = Library::ALL.into_iter().fold(Env::builder(), EnvBuilder::library);
    builder.types(Arc::new(Types)).variable("self", Type::object("spec")).build()
}

fn compile(text: &str) -> anyhow::Result<Program> {
    let checked = environment().compile(text).with_context(|| text.to_owned())?;
    checked.program().with_context(|| text.to_owned())
}

/// Evaluates a program once; the result must be true.
fn evaluate(program: &Program, shape: &Shape, document: &Value) -> anyhow::Result<()> {
    let (value, _) = program.eval(&[("self", shape.value(document)?)], u64::MAX);
    anyhow::ensure!(value? == true.into(), "the rule is false");
    Ok(())
}

/// Nanoseconds of one step of a loop: the difference between a thousand and a hundred elements, per element.
fn loop_step(text: &str) -> anyhow::Result<f64> {
    const FEW: usize = 100;
    const MANY: usize = 1000;
    let program = compile(text)?;
    let shape = Shape::Object(shape());
    let time = |count: usize| {
        let numbers: Vec<usize> = (1..=count).collect();
        let ports: Vec<Value> = numbers.iter().map(|port| json!({"name": "p", "port": port})).collect();
        let document = json!({"numbers": numbers, "ports": ports});
        nanoseconds(|| evaluate(&program, &shape, &document))
    };
    Ok((time(MANY)? - time(FEW)?) / (MANY - FEW) as f64)
}

/// Nanoseconds of CPU time of one run: the best of [`CEL_BATCHES`] batches, since other programs only add to
/// it.
fn nanoseconds(mut run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    // The number of runs that fit into one batch.
    let started = processor_time();
    run()?;
    let mut runs = 1_u32;
    while processor_time() - started < CEL_BATCH.as_secs_f64() {
        run()?;
        runs += 1;
    }
    let mut best = f64::INFINITY;
    for _ in 0..CEL_BATCHES {
        let started = processor_time();
        for _ in 0..runs {
            run()?;
        }
        best = best.min((processor_time() - started) * 1e9 / f64::from(runs));
    }
    Ok(best)
}

/// CPU time of this thread, in seconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

//! The templates of scheduler_perf's files, with its functions for numbers. Pure.

use kstore_gotemplate::{Functions, Limits, Missing, TemplateError};
use serde_json::{Map, Number, Value};
use std::sync::Arc;

/// Rounds and other steps of one object, so that a wrong count does not fill the memory.
const STEPS: usize = 1 << 20;
/// Bytes of one object: a ConfigMap of a benchmark is large.
const BYTES: usize = 16 << 20;

/// A template that was read.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// Name of the file, for errors.
    file: String,
    template: Arc<kstore_gotemplate::Template>,
    /// Fields that an operation gives the template.
    parameters: Map<String, Value>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The first construct that is wrong or unknown, with file and line.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, String> {
        match kstore_gotemplate::Template::parse(text, &NumberFunctions) {
            Ok(template) => {
                Ok(Self { file: file.to_owned(), template: Arc::new(template), parameters: Map::new() })
            }
            Err(error) => Err(shown(file, &error)),
        }
    }

    /// The template with these fields besides those of each object.
    pub(super) fn with(&self, parameters: Map<String, Value>) -> Self {
        Self { parameters, ..self.clone() }
    }

    /// The name of the template's file.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The text of the template with these fields.
    ///
    /// # Errors
    /// A field that does not exist, or a value that does not fit its function.
    pub(super) fn render(&self, fields: &Value) -> Result<String, String> {
        let limits = Limits { steps: STEPS, bytes: BYTES, missing: Missing::Refused };
        let mut fields = fields.clone();
        if let Some(members) = fields.as_object_mut() {
            members.extend(self.parameters.clone());
        }
        self.template.render(&fields, &NumberFunctions, limits).map_err(|error| shown(&self.file, &error))
    }
}

fn shown(file: &str, error: &TemplateError) -> String {
    format!("template {file}:{error}")
}

/// scheduler_perf's functions for numbers.
struct NumberFunctions;

/// An arithmetic function: of whole numbers, and of others.
struct Arithmetic {
    whole: fn(i64, i64) -> Option<i64>,
    float: fn(f64, f64) -> f64,
}

/// The functions without `Int` and `Float` behind their names.
const ARITHMETIC: [(&str, Arithmetic); 4] = [
    ("Add", Arithmetic { whole: i64::checked_add, float: |one, two| one + two }),
    ("Subtract", Arithmetic { whole: i64::checked_sub, float: |one, two| one - two }),
    ("Multiply", Arithmetic { whole: i64::checked_mul, float: |one, two| one * two }),
    ("Divide", Arithmetic { whole: i64::checked_div, float: |one, two| one / two }),
];

/// The arithmetic function of a name, and whether it is of whole numbers.
fn arithmetic(name: &str) -> Option<(&'static Arithmetic, bool)> {
    let (plain, is_whole) = match name.strip_suffix("Int") {
        Some(plain) => (plain, true),
        None => (name.strip_suffix("Float")?, false),
    };
    let found = ARITHMETIC.iter().find(|(known, _)| *known == plain);
    found.map(|(_, function)| (function, is_whole))
}

impl Functions for NumberFunctions {
    fn has(&self, name: &str) -> bool {
        name == "Mod" || arithmetic(name).is_some()
    }

    fn call(&self, name: &str, arguments: &[&Value]) -> Result<Value, String> {
        let Some((function, is_whole)) = arithmetic(name) else {
            let [one, two] = arguments else {
                return Err(format!("the function takes two arguments, not {}", arguments.len()));
            };
            let rest = int(one)?.checked_rem(int(two)?);
            return rest.map(Value::from).ok_or_else(|| "division by zero".to_owned());
        };
        let (first, rest) = arguments.split_first().ok_or("a function for numbers needs an argument")?;
        if name.starts_with("Divide") && rest.iter().any(|divisor| float(divisor) == Ok(0.0)) {
            return Err("division by zero".to_owned());
        }
        if is_whole {
            let sum = rest.iter().try_fold(int(first)?, |sum, next| {
                (function.whole)(sum, int(next)?).ok_or_else(|| "the number is too large".to_owned())
            });
            return sum.map(Value::from);
        }
        let mut sum = float(first)?;
        for next in rest {
            sum = (function.float)(sum, float(next)?);
        }
        Number::from_f64(sum).map(Value::Number).ok_or_else(|| "the number is too large".to_owned())
    }
}

/// A whole number. Go converts a float64 with `int()`, which drops the fraction.
fn int(value: &Value) -> Result<i64, String> {
    match value.as_i64() {
        Some(whole) => Ok(whole),
        None => {
            let number = float(value)?.trunc();
            format!("{number:.0}").parse().map_err(|_| format!("{number} is too large"))
        }
    }
}

fn float(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{value} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(text: &str) -> Result<String, String> {
        Template::parse("T", text)?.render(&json!({ "Index": 7, "Count": 10 }))
    }

    #[test]
    fn fields_functions_and_pipelines_give_go_texts() {
        for (text, expected) in [
            ("a-{{.Index}}-{{ .Count }}", "a-7-10"),
            ("{{AddInt .Index 1 2}} {{SubtractInt .Count .Index}} {{MultiplyInt 2 3}}", "10 3 6"),
            (
                "{{DivideInt .Count 3}} {{DivideFloat 1 4}} {{Mod .Index 3}} {{AddFloat 0.5 1}}",
                "3 0.25 1 1.5",
            ),
            ("{{ .Index | AddInt 1 | MultiplyInt 2 }}", "16"),
            ("{{ (AddInt .Index (Mod 5 3)) }}", "9"),
            ("x {{- /* gone */ -}} y", "xy"),
            ("a \n{{- .Index -}}\n b", "a7b"),
            ("{{ \"q\\\"\" }}{{ `r` }}{{ true }}", "q\"rtrue"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn blocks_have_variables_conditions_and_rounds() {
        for (text, expected) in [
            ("{{if eq (Mod .Index 2) 1}}odd{{else}}even{{end}}", "odd"),
            ("{{if false}}a{{else if gt .Index 5}}b{{else}}c{{end}}", "b"),
            ("{{$n := 2}}{{range $i := $n}}<{{$i}}>{{end}}", "<0><1>"),
            ("{{range $i, $e := 2}}{{$i}}={{$e}};{{end}}", "0=0;1=1;"),
            ("{{range 0}}x{{else}}none{{end}}", "none"),
            ("{{$s := 0}}{{range $i := 4}}{{$s = AddInt $s $i}}{{end}}{{$s}}", "6"),
            ("{{if and (lt .Index 8) (not (ge .Index 8))}}in{{end}}", "in"),
            ("{{if or (eq .Index 1 7) false}}hit{{end}}", "hit"),
            ("{{with .Index}}{{.}}{{end}}", "7"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused_with_file_and_line() {
        for (text, problem) in [
            ("\n{{genCA 3}}", "template T:2: function \"genCA\" is not supported"),
            ("{{.Nope}}", "template T:1: there is no field .Nope"),
            ("{{$x}}", "template T:1: undefined variable $x"),
            ("a\n{{if .Index}}", "template T:2: \"if\" has no {{end}}"),
            ("{{end}}", "template T:1: {{end}} closes nothing"),
            ("{{ .Index", "template T:1: \"{{\" has no \"}}\""),
            ("{{DivideInt 1 0}}", "template T:1: division by zero"),
            ("{{AddInt 1 \"a\"}}", "template T:1: \"a\" is not a number"),
            ("{{range 9999999}}x{{end}}", "template T:1: a range over 9999999 is longer than 1048576 rounds"),
        ] {
            assert_eq!(render(text), Err(problem.to_owned()), "{text}");
        }
    }
}

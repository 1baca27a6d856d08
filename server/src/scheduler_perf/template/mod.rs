//! [`Template`]: the part of Go's `text/template` that the templates of scheduler_perf use: fields, variables, `if`, `range`, pipelines,
//! comparisons, and the functions for numbers. Another construct is an error with file and line. Pure.

mod lexer;
mod parser;
mod value;

use lexer::{Piece, pieces};
use parser::{Branch, Expression, Node};
use std::collections::BTreeMap;
use std::fmt::Write as _;
pub(super) use value::TemplateValue;

/// Rounds of one `range`, so that a wrong count does not fill the memory.
const ROUNDS: usize = 1 << 20;

/// A template that was read.
#[derive(Clone, Debug)]
pub(super) struct Template {
    /// Name of the file, for errors.
    file: String,
    nodes: Vec<Node>,
}

/// The fields that a template reads: `.Index`.
pub(super) type TemplateFields = BTreeMap<String, TemplateValue>;

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The first construct that is wrong or unknown, with file and line.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, String> {
        let error = |(line, problem): (usize, String)| format!("template {file}:{line}: {problem}");
        let pieces: Vec<Piece> = pieces(text).map_err(error)?;
        let nodes = parser::parse(pieces).map_err(error)?;
        Ok(Self { file: file.to_owned(), nodes })
    }

    /// The name of the template's file.
    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// The text of the template with these fields.
    ///
    /// # Errors
    /// A field or variable that does not exist, or a value that does not fit its function.
    pub(super) fn render(&self, fields: &TemplateFields) -> Result<String, String> {
        let mut run = Rendering { fields, variables: Vec::new(), text: String::new() };
        run.all(&self.nodes)
            .map_err(|(line, problem)| format!("template {}:{line}: {problem}", self.file))?;
        Ok(run.text)
    }
}

/// A problem and its line.
type Problem = (usize, String);

/// A template that is being executed.
struct Rendering<'t> {
    fields: &'t TemplateFields,
    /// Variables in the order of their declaration; an inner block's are removed at its end.
    variables: Vec<(&'t str, TemplateValue)>,
    text: String,
}

impl<'t> Rendering<'t> {
    fn all(&mut self, nodes: &'t [Node]) -> Result<(), Problem> {
        nodes.iter().try_for_each(|node| self.one(node))
    }

    /// Executes a block, whose variables end with it.
    fn block(&mut self, nodes: &'t [Node]) -> Result<(), Problem> {
        let outer = self.variables.len();
        self.all(nodes)?;
        self.variables.truncate(outer);
        Ok(())
    }

    fn one(&mut self, node: &'t Node) -> Result<(), Problem> {
        match node {
            Node::Text(text) => self.text.push_str(text),
            Node::Print(line, expression) => {
                let value = self.value(*line, expression)?;
                // Writing into a text does not fail.
                let _ = write!(self.text, "{value}");
            }
            Node::Declare(line, name, expression) => {
                let value = self.value(*line, expression)?;
                self.variables.push((name, value));
            }
            Node::Assign(line, name, expression) => {
                let value = self.value(*line, expression)?;
                let variable = self.variables.iter_mut().rev().find(|(own, _)| own == name);
                variable.ok_or_else(|| (*line, format!("undefined variable ${name}")))?.1 = value;
            }
            Node::If(branches, otherwise) => {
                for Branch { line, condition, then } in branches {
                    if self.value(*line, condition)?.is_true() {
                        return self.block(then);
                    }
                }
                self.block(otherwise)?;
            }
            Node::Range { line, variables, over, body, otherwise } => {
                let rounds = self.value(*line, over)?.elements(ROUNDS).map_err(|problem| (*line, problem))?;
                if rounds.is_empty() {
                    return self.block(otherwise);
                }
                for (index, element) in rounds {
                    let outer = self.variables.len();
                    let bound = match &variables[..] {
                        [] => vec![],
                        [element_name] => vec![(element_name.as_str(), element)],
                        [index_name, element_name, ..] => {
                            vec![(index_name.as_str(), index), (element_name.as_str(), element)]
                        }
                    };
                    self.variables.extend(bound);
                    self.all(body)?;
                    self.variables.truncate(outer);
                }
            }
        }
        Ok(())
    }

    fn value(&self, line: usize, expression: &Expression) -> Result<TemplateValue, Problem> {
        match expression {
            Expression::Literal(value) => Ok(value.clone()),
            Expression::Field(name) => {
                let value = self.fields.get(name).cloned();
                value.ok_or_else(|| (line, format!("there is no field .{name}")))
            }
            Expression::Variable(name) => {
                let found = self.variables.iter().rev().find(|(own, _)| own == name);
                found
                    .map(|(_, value)| value.clone())
                    .ok_or_else(|| (line, format!("undefined variable ${name}")))
            }
            Expression::Call(function, arguments) => {
                let values = arguments.iter().map(|argument| self.value(line, argument));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                function.call(&values).map_err(|problem| (line, problem))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str) -> Result<String, String> {
        let fields = [("Index", 7), ("Count", 10)];
        let fields = fields.map(|(name, value)| (name.to_owned(), TemplateValue::Int(value))).into();
        Template::parse("T", text)?.render(&fields)
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
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused_with_file_and_line() {
        for (text, problem) in [
            ("\n{{trunc 3}}", "template T:2: function \"trunc\" is not supported"),
            ("{{with .Index}}x{{end}}", "template T:1: \"with\" is not supported"),
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

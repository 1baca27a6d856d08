//! JSONPath of printer columns: members, indexes, slices, wildcards, recursive descent, unions and simple
//! filters.

use serde_json::Value;

/// Most values that one step selects; the rest is skipped. Columns show the first value, and each cell costs
/// a walk.
const SELECTED_MAX: usize = 1_000;
/// Steps of one expression.
const STEPS_MAX: usize = 64;
/// Depth of nested filters.
const FILTERS_MAX: usize = 4;

/// Compiled JSONPath expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath {
    steps: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    /// Member: `.name`, `['name']`.
    Member(String),
    /// All children: `.*`, `[*]`.
    Wildcard,
    /// The value and everything below it: `..`.
    Descend,
    /// Slice `[start:end:step]`; `[n]` is the slice from n to n + 1.
    Slice(Slice),
    /// Union of paths: `['a','b.c']`, `[0,2]`.
    Union(Vec<Vec<PathStep>>),
    /// Filter: `[?(@.a == "x")]`.
    Filter(Filter),
}

#[derive(Clone, Debug, PartialEq)]
struct Slice {
    start: i64,
    end: Option<i64>,
    step: i64,
    /// Whether this is a single index, which must be inside the list.
    single: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Operand,
    comparison: Option<(Comparison, Operand)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Path(Vec<PathStep>),
    Literal(Value),
}

impl JsonPath {
    /// Parses an expression such as `.status.conditions[?(@.type=="Ready")].status`. `None` if it is
    /// malformed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(Self { steps: steps(text, FILTERS_MAX)? })
    }

    /// The first value that the expression selects.
    pub(super) fn first<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        select(&self.steps, object).into_iter().next()
    }
}

/// Parses steps; `filters` is the remaining depth of nested filters.
fn steps(text: &str, filters: usize) -> Option<Vec<PathStep>> {
    let mut out = Vec::new();
    let mut rest = text.trim().trim_start_matches(['$', '@']);
    while !rest.is_empty() {
        if out.len() >= STEPS_MAX {
            return None;
        }
        if let Some(after) = rest.strip_prefix("..") {
            out.push(PathStep::Descend);
            // A name follows without a dot; a bracket starts the next step.
            rest = if after.starts_with('[') || after.is_empty() { after } else { member(after, &mut out) };
        } else if let Some(after) = rest.strip_prefix('.') {
            // A single dot is the object itself.
            rest = if after.is_empty() && out.is_empty() { after } else { member(after, &mut out) };
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = closing(after)?;
            match quoted(&after[..end], '\'') {
                // A quoted key is a path of its own: dots separate members, and a backslash escapes one.
                Some(key) => out.extend(steps(&format!(".{key}"), filters)?),
                None => out.push(bracket(&after[..end], filters)?),
            }
            rest = &after[end + 1..];
        } else if let Some(after) = rest.strip_prefix([' ', '$', '@']) {
            rest = after;
        } else if out.is_empty() && rest.starts_with(|first: char| first.is_alphanumeric() || first == '_') {
            rest = member(rest, &mut out);
        } else {
            return None;
        }
    }
    Some(out)
}

/// Parses a name or `*`; a backslash escapes the next character. As in Kubernetes a name may be empty, which no object has.
fn member<'t>(text: &'t str, out: &mut Vec<PathStep>) -> &'t str {
    let mut name = String::new();
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => name.extend(letters.next().map(|(_, letter)| letter).filter(|letter| *letter != '\\')),
            '.' | '[' | ' ' | ']' | '$' | '@' | '{' | '}' => {
                end = at;
                break;
            }
            letter => name.push(letter),
        }
    }
    out.push(if name == "*" { PathStep::Wildcard } else { PathStep::Member(name) });
    &text[end..]
}

/// Offset of the bracket that closes the one before `text`; quoted brackets do not count.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

fn bracket(inner: &str, filters: usize) -> Option<PathStep> {
    if inner == "*" {
        return Some(PathStep::Wildcard);
    }
    if let Some(condition) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter(condition.trim(), filters.checked_sub(1)?).map(PathStep::Filter);
    }
    if let Some(slice) = slice(inner) {
        return Some(PathStep::Slice(slice));
    }
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    if parts.len() < 2 {
        return None;
    }
    let parts = parts.into_iter().map(|part| match quoted(part, '\'') {
        Some(key) => steps(&format!(".{key}"), filters.checked_sub(1)?),
        None => slice(part).map(|slice| vec![PathStep::Slice(slice)]),
    });
    parts.collect::<Option<Vec<_>>>().map(PathStep::Union)
}

fn quoted(text: &str, quote: char) -> Option<&str> {
    text.strip_prefix(quote)?.strip_suffix(quote).filter(|own| !own.contains(quote))
}

fn slice(text: &str) -> Option<Slice> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize| match parts.get(at) {
        None | Some(&"") => Some(None),
        Some(part) => part.parse::<i64>().ok().map(Some),
    };
    let (start, end, step) = (number(0)?, number(1)?, number(2)?);
    match parts.len() {
        1 => Some(Slice { start: start?, end: start?.checked_add(1), step: 1, single: true }),
        2 | 3 => Some(Slice { start: start.unwrap_or(0), end, step: step.unwrap_or(1), single: false }),
        _ => None,
    }
}

fn filter(text: &str, filters: usize) -> Option<Filter> {
    const SIGNS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessOrEqual),
        (">=", Comparison::GreaterOrEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    let at = text.find(['=', '!', '<', '>']);
    let Some(at) = at else { return Some(Filter { left: operand(text, filters)?, comparison: None }) };
    let (left, rest) = text.split_at(at);
    let (sign, comparison) = SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign))?;
    let right = operand(rest[sign.len()..].trim(), filters)?;
    Some(Filter { left: operand(left.trim(), filters)?, comparison: Some((comparison, right)) })
}

fn operand(text: &str, filters: usize) -> Option<Operand> {
    if text.starts_with(['@', '$']) {
        return steps(text, filters).map(Operand::Path);
    }
    let literal = quoted(text, '\'').or_else(|| quoted(text, '"')).map(Value::from);
    literal.or_else(|| serde_json::from_str::<Value>(text).ok()).map(Operand::Literal)
}

fn select<'v>(steps: &[PathStep], object: &'v Value) -> Vec<&'v Value> {
    let mut selected = vec![object];
    for step in steps {
        let mut next = Vec::new();
        for value in selected {
            if next.len() >= SELECTED_MAX {
                break;
            }
            apply(step, value, &mut next);
        }
        next.truncate(SELECTED_MAX);
        selected = next;
    }
    selected
}

fn apply<'v>(step: &PathStep, value: &'v Value, out: &mut Vec<&'v Value>) {
    match step {
        PathStep::Member(name) => out.extend(value.as_object().and_then(|members| members.get(name))),
        PathStep::Wildcard => out.extend(children(value)),
        PathStep::Descend => descend(value, out),
        PathStep::Slice(slice) => out.extend(value.as_array().into_iter().flat_map(|items| slice.of(items))),
        PathStep::Union(paths) => paths.iter().for_each(|path| out.extend(select(path, value))),
        PathStep::Filter(filter) => {
            let items = value.as_array().into_iter().flatten();
            out.extend(items.filter(|item| filter.accepts(item)));
        }
    }
}

/// Children of a value: items in order, or members sorted by name.
fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            members.into_iter().map(|(_, member)| member).collect()
        }
        _ => Vec::new(),
    }
}

fn descend<'v>(value: &'v Value, out: &mut Vec<&'v Value>) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if out.len() >= SELECTED_MAX {
            return;
        }
        out.push(value);
        open.extend(children(value).into_iter().rev());
    }
}

impl Slice {
    fn of<'v>(&self, items: &'v [Value]) -> Vec<&'v Value> {
        let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let absolute = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let start = absolute(self.start);
        if self.single {
            let item = usize::try_from(start).ok().and_then(|at| items.get(at));
            return item.into_iter().collect();
        }
        let end = self.end.map_or(length, absolute).min(length);
        let (Ok(start), Ok(end), Ok(step)) =
            (usize::try_from(start.max(0)), usize::try_from(end.max(0)), usize::try_from(self.step))
        else {
            return Vec::new();
        };
        if step == 0 || start >= end {
            return Vec::new();
        }
        items[start..end].iter().step_by(step).collect()
    }
}

impl Filter {
    fn accepts(&self, item: &Value) -> bool {
        let left = self.left.values(item);
        let Some((comparison, right)) = &self.comparison else { return !left.is_empty() };
        let right = right.values(item);
        match (left.as_slice(), right.as_slice()) {
            ([left], [right]) => comparison.holds(left, right),
            _ => false,
        }
    }
}

impl Operand {
    fn values<'v>(&'v self, item: &'v Value) -> Vec<&'v Value> {
        match self {
            Operand::Path(steps) => select(steps, item),
            Operand::Literal(value) => vec![value],
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => {
                a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
            }
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match (self, order) {
            (Comparison::Equal, order) => order.is_some_and(|order| order.is_eq()),
            (Comparison::NotEqual, order) => order.is_none_or(|order| order.is_ne()),
            (Comparison::Less, Some(order)) => order.is_lt(),
            (Comparison::LessOrEqual, Some(order)) => order.is_le(),
            (Comparison::Greater, Some(order)) => order.is_gt(),
            (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
            (_, None) => false,
        }
    }
}

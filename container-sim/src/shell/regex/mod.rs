//! Regular expressions of POSIX, basic and extended: the longest of the leftmost matches. Without back-references a match takes linear
//! memory and a bounded time; with them it is a search whose steps are counted as work.

mod places;
#[cfg(test)]
mod tests;

use super::pattern::Class;
use super::work::WorkMeter;
use places::{Seen, decode};
use std::sync::Arc;

/// Where groups match: the whole match first, then each group; `None` for one that did not.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

/// Groups inside of groups.
const GROUPS: usize = 32;
/// Instructions of one expression; a longer one is refused. Repetition counts multiply them.
const INSTRUCTIONS: usize = 20_000;

#[derive(Clone, Debug)]
enum Node {
    Empty,
    Char(char),
    Any,
    Set(Arc<(Vec<SetItem>, bool)>),
    Start,
    End,
    /// `\<`, `\>`, `\b` and `\B`.
    Word(char),
    Group(Box<Node>, usize),
    Sequence(Vec<Node>),
    Alternatives(Vec<Node>),
    Repeat(Box<Node>, usize, Option<usize>),
    Back(usize),
}

#[derive(Clone, Debug)]
enum SetItem {
    Range(char, char),
    Class(Class),
}

#[derive(Clone, Debug)]
enum Instruction {
    Char(char),
    Any,
    Set(Arc<(Vec<SetItem>, bool)>),
    Start,
    End,
    Word(char),
    Save(usize),
    /// Tries the first place, then the second.
    Split(usize, usize),
    Jump(usize),
    Back(usize),
    Match,
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Regex {
    program: Vec<Instruction>,
    groups: usize,
    ignores_case: bool,
    has_back: bool,
    newline_ends: bool,
}

struct Parser<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    extended: bool,
    groups: usize,
    has_back: bool,
}

impl Regex {
    /// Compiles a basic expression.
    ///
    /// # Errors
    /// The text of the error.
    pub(super) fn basic(text: &str, ignores_case: bool) -> Result<Self, String> {
        Self::compile(text, false, ignores_case)
    }

    /// Compiles an extended expression.
    ///
    /// # Errors
    /// The text of the error.
    pub(super) fn extended(text: &str, ignores_case: bool) -> Result<Self, String> {
        Self::compile(text, true, ignores_case)
    }

    fn compile(text: &str, extended: bool, ignores_case: bool) -> Result<Self, String> {
        let mut parser = Parser { rest: text.chars().peekable(), extended, groups: 0, has_back: false };
        let node = parser.alternatives(0)?;
        if parser.rest.peek().is_some() {
            return Err("Unmatched ) or \\)".to_owned());
        }
        let mut program = vec![Instruction::Save(0)];
        emit(&node, &mut program, 0)?;
        program.extend([Instruction::Save(1), Instruction::Match]);
        let (groups, has_back) = (parser.groups, parser.has_back);
        Ok(Self { program, groups, ignores_case, has_back, newline_ends: false })
    }

    /// Lets `^` and `$` match at newlines too.
    pub(super) fn multiline(mut self) -> Self {
        self.newline_ends = true;
        self
    }

    /// Groups of the expression.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// The first match at or behind `from`. Without `begins`, the text does not begin a line.
    pub(super) fn find(&self, text: &[u8], from: usize, begins: bool, work: &WorkMeter) -> Option<Groups> {
        if self.has_back {
            return (from..=text.len()).find_map(|start| self.backtrack(text, start, begins, work));
        }
        self.simulate(text, from, begins, work)
    }

    fn holds(&self, instruction: &Instruction, text: &[u8], at: usize, begins: bool) -> bool {
        match instruction {
            Instruction::Start => {
                (at == 0 && begins) || (self.newline_ends && at > 0 && text[at - 1] == b'\n')
            }
            Instruction::End => at == text.len() || (self.newline_ends && text[at] == b'\n'),
            Instruction::Word(kind) => {
                let is_word = |at: Option<usize>| {
                    at.and_then(|at| text.get(at))
                        .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                };
                let (before, after) = (is_word(at.checked_sub(1)), is_word(Some(at)));
                match kind {
                    '<' => !before && after,
                    '>' => before && !after,
                    'b' => before != after,
                    _ => before == after,
                }
            }
            _ => false,
        }
    }

    fn takes(&self, instruction: &Instruction, c: char) -> bool {
        let same = |own: char| own == c || (self.ignores_case && own.to_lowercase().eq(c.to_lowercase()));
        match instruction {
            Instruction::Char(own) => same(*own),
            Instruction::Any => true,
            Instruction::Set(set) => {
                let has = |c: char| {
                    set.0.iter().any(|item| match item {
                        SetItem::Range(first, last) => (*first..=*last).contains(&c),
                        SetItem::Class(class) => class.has(c),
                    })
                };
                let folded = self.ignores_case && (c.to_lowercase().any(has) || c.to_uppercase().any(has));
                (has(c) || folded) != set.1
            }
            _ => false,
        }
    }

    /// Runs all ways to match at once; each place of the program at most once for each character.
    fn simulate(&self, text: &[u8], from: usize, begins: bool, work: &WorkMeter) -> Option<Groups> {
        let slots = 2 * (self.groups + 1);
        let mut best: Option<Vec<Option<usize>>> = None;
        let mut threads: Vec<(usize, Vec<Option<usize>>)> = Vec::new();
        let mut seen = Seen::new(self.program.len());
        let mut at = from;
        loop {
            seen.clear();
            let mut reached = Vec::new();
            for (place, saved) in threads.drain(..) {
                self.follow(place, saved, text, (at, begins), &mut seen, &mut reached);
            }
            if best.is_none() {
                // A match that begins here is less left than those under way.
                self.follow(0, vec![None; slots], text, (at, begins), &mut seen, &mut reached);
            }
            if !work.spend(8 * reached.len() + 8) {
                return None;
            }
            let (c, length) = decode(&text[at.min(text.len())..]);
            for (place, saved) in reached {
                match &self.program[place] {
                    Instruction::Match => {
                        let better = best.as_ref().is_none_or(|best| {
                            saved[0] < best[0] || (saved[0] == best[0] && saved[1] > best[1])
                        });
                        if better {
                            best = Some(saved);
                        }
                    }
                    instruction
                        if at < text.len()
                            && self.takes(instruction, c)
                            && best.as_ref().is_none_or(|best| saved[0] <= best[0]) =>
                    {
                        threads.push((place + 1, saved));
                    }
                    _ => {}
                }
            }
            if let Some(best) = &best {
                threads.retain(|(_, saved)| saved[0] <= best[0]);
            }
            if at >= text.len() || (threads.is_empty() && best.is_some()) {
                break;
            }
            at += length;
        }
        best.map(|saved| saved.chunks(2).map(|pair| pair[0].zip(pair[1])).collect())
    }

    /// Follows jumps from a place to those that take a character or end.
    fn follow(
        &self,
        place: usize,
        saved: Vec<Option<usize>>,
        text: &[u8],
        (at, begins): (usize, bool),
        seen: &mut Seen,
        reached: &mut Vec<(usize, Vec<Option<usize>>)>,
    ) {
        let mut stack = vec![(place, saved)];
        while let Some((place, mut saved)) = stack.pop() {
            if !seen.insert(place) {
                continue;
            }
            match &self.program[place] {
                Instruction::Jump(to) => stack.push((*to, saved)),
                Instruction::Split(first, second) => {
                    stack.push((*second, saved.clone()));
                    stack.push((*first, saved));
                }
                Instruction::Save(slot) => {
                    saved[*slot] = Some(at);
                    stack.push((place + 1, saved));
                }
                instruction @ (Instruction::Start | Instruction::End | Instruction::Word(_)) => {
                    if self.holds(instruction, text, at, begins) {
                        stack.push((place + 1, saved));
                    }
                }
                _ => reached.push((place, saved)),
            }
        }
    }

    /// The longest match at `start`, with back-references.
    fn backtrack(&self, text: &[u8], start: usize, begins: bool, work: &WorkMeter) -> Option<Groups> {
        let mut best: Option<Vec<Option<usize>>> = None;
        // The last number of a way is where its latest loop began, so that empty rounds end.
        let mut ways = vec![(0usize, start, vec![None; 2 * (self.groups + 1)], 0usize)];
        while let Some((place, at, mut saved, steps)) = ways.pop() {
            if !work.spend(64) || steps > 4 * (self.program.len() + text.len()) + 64 {
                continue;
            }
            let (c, length) = decode(&text[at..]);
            match &self.program[place] {
                Instruction::Match => {
                    if best.as_ref().is_none_or(|best| saved[1] > best[1]) {
                        best = Some(saved);
                    }
                }
                Instruction::Jump(to) => ways.push((*to, at, saved, steps + 1)),
                Instruction::Split(first, second) => {
                    ways.push((*second, at, saved.clone(), steps + 1));
                    ways.push((*first, at, saved, steps + 1));
                }
                Instruction::Save(slot) => {
                    saved[*slot] = Some(at);
                    ways.push((place + 1, at, saved, steps + 1));
                }
                Instruction::Back(group) => {
                    let part = saved[2 * group].zip(saved[2 * group + 1]).map(|(from, to)| &text[from..to]);
                    if let Some(part) = part.filter(|part| text[at..].starts_with(part)) {
                        let end = at + part.len();
                        ways.push((place + 1, end, saved, steps + 1));
                    }
                }
                instruction @ (Instruction::Start | Instruction::End | Instruction::Word(_)) => {
                    if self.holds(instruction, text, at, begins) {
                        ways.push((place + 1, at, saved, steps + 1));
                    }
                }
                instruction => {
                    if at < text.len() && self.takes(instruction, c) {
                        ways.push((place + 1, at + length, saved, steps + 1));
                    }
                }
            }
        }
        best.map(|saved| saved.chunks(2).map(|pair| pair[0].zip(pair[1])).collect())
    }
}

impl Parser<'_> {
    fn alternatives(&mut self, depth: usize) -> Result<Node, String> {
        if depth > GROUPS {
            return Err("Regular expression too big".to_owned());
        }
        let mut all = vec![self.sequence(depth)?];
        while self.skip_alternative() {
            all.push(self.sequence(depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::Alternatives(all) })
    }

    /// Passes over `|`, or in a basic expression `\|`.
    fn skip_alternative(&mut self) -> bool {
        if self.extended {
            return self.rest.next_if_eq(&'|').is_some();
        }
        let mut ahead = self.rest.clone();
        let found = ahead.next() == Some('\\') && ahead.next() == Some('|');
        if found {
            self.rest = ahead;
        }
        found
    }

    fn is_end(&self) -> bool {
        let mut ahead = self.rest.clone();
        match (ahead.next(), self.extended) {
            (None, _) | (Some('|' | ')'), true) => true,
            (Some('\\'), false) => matches!(ahead.next(), Some('|' | ')')),
            _ => false,
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Node, String> {
        let mut nodes: Vec<Node> = Vec::new();
        while !self.is_end() {
            let is_first = nodes.is_empty();
            let mut node = self.atom(is_first, depth)?;
            let mut repetitions = 0;
            while let Some((least, most)) = self.repetition(&node)? {
                repetitions += 1;
                if repetitions > 8 {
                    return Err("Regular expression too big".to_owned());
                }
                node = Node::Repeat(Box::new(node), least, most);
            }
            nodes.push(node);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Sequence(nodes),
        })
    }

    fn atom(&mut self, is_first: bool, depth: usize) -> Result<Node, String> {
        let Some(c) = self.rest.next() else { return Ok(Node::Empty) };
        match c {
            '.' => Ok(Node::Any),
            '[' => self.set(),
            '(' if self.extended => self.group(depth),
            '^' if self.extended || is_first => Ok(Node::Start),
            '$' if self.extended || self.is_end() => Ok(Node::End),
            '*' if self.extended && is_first => Ok(Node::Char('*')),
            '+' | '?' | '{' if self.extended && is_first && c != '{' => {
                Err("Invalid preceding regular expression".to_owned())
            }
            '\\' => match self.rest.next() {
                None => Err("Trailing backslash".to_owned()),
                Some('(') if !self.extended => self.group(depth),
                Some(c @ ('<' | '>' | 'b' | 'B')) => Ok(Node::Word(c)),
                Some('n') => Ok(Node::Char('\n')),
                Some('t') => Ok(Node::Char('\t')),
                Some('`') => Ok(Node::Start),
                Some('\'') => Ok(Node::End),
                Some(c @ ('w' | 'W')) => {
                    let items = vec![SetItem::Class(Class::Alnum), SetItem::Range('_', '_')];
                    Ok(Node::Set(Arc::new((items, c == 'W'))))
                }
                Some(c @ ('s' | 'S')) => {
                    Ok(Node::Set(Arc::new((vec![SetItem::Class(Class::Space)], c == 'S'))))
                }
                Some(c @ '1'..='9') => {
                    let group = c.to_digit(10).map_or(0, |digit| digit as usize);
                    if group > self.groups {
                        return Err("Invalid back reference".to_owned());
                    }
                    self.has_back = true;
                    Ok(Node::Back(group))
                }
                Some(c) => Ok(Node::Char(c)),
            },
            c => Ok(Node::Char(c)),
        }
    }

    fn group(&mut self, depth: usize) -> Result<Node, String> {
        self.groups += 1;
        let number = self.groups;
        let inside = self.alternatives(depth + 1)?;
        let closed = (self.extended || self.rest.next() == Some('\\')) && self.rest.next() == Some(')');
        if closed { Ok(Node::Group(Box::new(inside), number)) } else { Err("Unmatched ( or \\(".to_owned()) }
    }

    /// `*`, `+`, `?` or a count behind an atom.
    fn repetition(&mut self, atom: &Node) -> Result<Option<(usize, Option<usize>)>, String> {
        let is_anchor = matches!(atom, Node::Start) && !self.extended;
        let Some(&c) = self.rest.peek() else { return Ok(None) };
        let escaped = !self.extended && c == '\\';
        let kind = match escaped {
            true => {
                let mut ahead = self.rest.clone();
                ahead.next();
                ahead.next().filter(|c| matches!(c, '+' | '?' | '{'))
            }
            false => Some(c).filter(|c| *c == '*' || (self.extended && matches!(c, '+' | '?' | '{'))),
        };
        let Some(kind) = kind.filter(|_| !is_anchor) else { return Ok(None) };
        if kind == '{' && self.extended {
            let mut ahead = self.rest.clone();
            ahead.next();
            if !ahead.peek().is_some_and(|c| c.is_ascii_digit() || *c == ',') {
                return Ok(None);
            }
        }
        self.rest.next();
        if escaped {
            self.rest.next();
        }
        match kind {
            '*' => Ok(Some((0, None))),
            '+' => Ok(Some((1, None))),
            '?' => Ok(Some((0, Some(1)))),
            _ => self.count().map(Some),
        }
    }

    fn count(&mut self) -> Result<(usize, Option<usize>), String> {
        let bad = || "Invalid content of \\{\\}".to_owned();
        let mut text = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_ascii_digit() || *c == ',') {
            text.push(c);
        }
        let closed = (self.extended || self.rest.next() == Some('\\')) && self.rest.next() == Some('}');
        if !closed {
            return Err("Unmatched { or \\{".to_owned());
        }
        let parse = |text: &str| text.parse::<usize>().ok().filter(|count| *count <= 255).ok_or_else(bad);
        match text.split_once(',') {
            None => parse(&text).map(|count| (count, Some(count))),
            Some((least, "")) => Ok((if least.is_empty() { 0 } else { parse(least)? }, None)),
            Some((least, most)) => {
                let (least, most) = (if least.is_empty() { 0 } else { parse(least)? }, parse(most)?);
                if least <= most { Ok((least, Some(most))) } else { Err(bad()) }
            }
        }
    }

    fn set(&mut self) -> Result<Node, String> {
        let unmatched = || "Unmatched [, [^, [:, [., or [=".to_owned();
        let negated = self.rest.next_if_eq(&'^').is_some();
        let (mut items, mut is_first) = (Vec::new(), true);
        loop {
            let c = self.rest.next().ok_or_else(unmatched)?;
            if c == ']' && !is_first {
                return Ok(Node::Set(Arc::new((items, negated))));
            }
            is_first = false;
            if c == '[' && matches!(self.rest.peek(), Some(':' | '.' | '=')) {
                let kind = self.rest.next().unwrap_or(':');
                let mut name = String::new();
                loop {
                    let c = self.rest.next().ok_or_else(unmatched)?;
                    if c == kind && self.rest.peek() == Some(&']') {
                        self.rest.next();
                        break;
                    }
                    name.push(c);
                }
                match (kind, name.chars().next()) {
                    (':', _) => {
                        let class = Class::of(&name).ok_or("Invalid character class name")?;
                        items.push(SetItem::Class(class));
                    }
                    (_, Some(c)) => items.push(SetItem::Range(c, c)),
                    (_, None) => return Err(unmatched()),
                }
                continue;
            }
            let mut ahead = self.rest.clone();
            let last = match (ahead.next(), ahead.next()) {
                (Some('-'), Some(last)) if last != ']' => {
                    self.rest = ahead;
                    last
                }
                _ => c,
            };
            if last < c {
                return Err("Invalid range end".to_owned());
            }
            items.push(SetItem::Range(c, last));
        }
    }
}

fn emit(node: &Node, program: &mut Vec<Instruction>, depth: usize) -> Result<(), String> {
    if program.len() > INSTRUCTIONS || depth > 8 * GROUPS {
        return Err("Regular expression too big".to_owned());
    }
    match node {
        Node::Empty => {}
        Node::Char(c) => program.push(Instruction::Char(*c)),
        Node::Any => program.push(Instruction::Any),
        Node::Set(set) => program.push(Instruction::Set(Arc::clone(set))),
        Node::Start => program.push(Instruction::Start),
        Node::End => program.push(Instruction::End),
        Node::Word(kind) => program.push(Instruction::Word(*kind)),
        Node::Back(group) => program.push(Instruction::Back(*group)),
        Node::Group(inside, number) => {
            program.push(Instruction::Save(2 * number));
            emit(inside, program, depth + 1)?;
            program.push(Instruction::Save(2 * number + 1));
        }
        Node::Sequence(nodes) => nodes.iter().try_for_each(|node| emit(node, program, depth + 1))?,
        Node::Alternatives(nodes) => {
            let mut jumps = Vec::new();
            for (at, node) in nodes.iter().enumerate() {
                if at + 1 == nodes.len() {
                    emit(node, program, depth + 1)?;
                    continue;
                }
                let split = program.len();
                program.push(Instruction::Match);
                emit(node, program, depth + 1)?;
                jumps.push(program.len());
                program.push(Instruction::Match);
                program[split] = Instruction::Split(split + 1, program.len());
            }
            let end = program.len();
            jumps.into_iter().for_each(|jump| program[jump] = Instruction::Jump(end));
        }
        Node::Repeat(inside, least, most) => {
            for _ in 0..*least {
                emit(inside, program, depth + 1)?;
            }
            match most {
                None => {
                    let split = program.len();
                    program.push(Instruction::Match);
                    emit(inside, program, depth + 1)?;
                    program.push(Instruction::Jump(split));
                    program[split] = Instruction::Split(split + 1, program.len());
                }
                Some(most) => {
                    let mut splits = Vec::new();
                    for _ in *least..*most {
                        splits.push(program.len());
                        program.push(Instruction::Match);
                        emit(inside, program, depth + 1)?;
                    }
                    let end = program.len();
                    for split in splits {
                        program[split] = Instruction::Split(split + 1, end);
                    }
                }
            }
        }
    }
    Ok(())
}

//! The grammar, one function a rule, with the lookahead of a generated parser: an error is found at the same token.

use super::builder::{Builder, balanced, operator};
use super::recover::{Cursor, END, Fault};
use super::token::{Kind, Token};
use super::{Syntax, literal, macros};
use crate::ast::{Ast, Expr, ExprKind, Literal};
use crate::limits::RECURSION;
use crate::source::{ErrorSink, NOWHERE};
use std::sync::Arc;

const LITERALS: u64 = Kind::True.set()
    | Kind::False.set()
    | Kind::Null.set()
    | Kind::Float.set()
    | Kind::Int.set()
    | Kind::Uint.set()
    | Kind::String.set()
    | Kind::Bytes.set();
/// Tokens with which a primary expression begins; a minus begins a negative number.
const PRIMARY: u64 = LITERALS
    | Kind::LeftBracket.set()
    | Kind::LeftBrace.set()
    | Kind::LeftParen.set()
    | Kind::Dot.set()
    | Kind::Minus.set()
    | Kind::Ident.set();
/// Tokens with which an expression begins.
pub(super) const EXPR: u64 = PRIMARY | Kind::Exclam.set();
const RELATIONS: u64 = Kind::Less.set()
    | Kind::LessEquals.set()
    | Kind::GreaterEquals.set()
    | Kind::Greater.set()
    | Kind::Equals.set()
    | Kind::NotEquals.set()
    | Kind::In.set();
const PRODUCTS: u64 = Kind::Star.set() | Kind::Slash.set() | Kind::Percent.set();
const SUMS: u64 = Kind::Plus.set() | Kind::Minus.set();
pub(super) const MEMBERS: u64 = Kind::Dot.set() | Kind::LeftBracket.set();
pub(super) const FIELD: u64 = Kind::Ident.set() | Kind::EscapedIdent.set();

/// Names that the language keeps for itself; they are allowed as fields.
const RESERVED: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

/// An expression and how deep the operators in it are nested.
pub(super) struct Node {
    pub(super) expr: Expr,
    pub(super) height: usize,
}

/// How tightly operators bind, the loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Relation,
    /// The right side of a comparison, which holds no further comparison.
    RelationOperand,
    /// The right side of a sum.
    Term,
    /// The right side of a product.
    Factor,
}

/// The outcome of a rule as far as it came.
pub(super) type Slot = Option<Node>;

/// Reads one expression.
pub(super) struct Parser<'s> {
    pub(super) cursor: Cursor<'s>,
    pub(super) builder: Builder,
    pub(super) syntax: Syntax,
    depth: usize,
}

impl<'s> Parser<'s> {
    pub(super) fn new(cursor: Cursor<'s>, syntax: Syntax) -> Self {
        Self { cursor, builder: Builder::default(), syntax, depth: 0 }
    }

    /// The whole text.
    pub(super) fn start(mut self) -> (Ast, ErrorSink) {
        let mut root = None;
        self.cursor.enter(0);
        let outcome = {
            root = Some(self.expr(Kind::Eof.set())).or(root);
            self.cursor.expect(Kind::Eof, 0).map(|_| ())
        };
        self.cursor.leave("start", outcome);
        let root = root.expect("the rule leaves an expression").expr;
        (self.builder.finish(root), self.cursor.errors)
    }

    /// Ends a rule: its outcome, or the place of an error if it came to nothing.
    fn leave(&mut self, rule: &'static str, slot: Slot, outcome: Result<(), Fault>) -> Node {
        self.cursor.leave(rule, outcome);
        slot.unwrap_or_else(|| {
            let offset = self.cursor.peek(0).start;
            Node { expr: self.builder.error(offset), height: 0 }
        })
    }

    /// Accepts the height of a new node, or stops parsing.
    fn bounded(&mut self, height: usize) -> Result<usize, Fault> {
        if height <= RECURSION {
            return Ok(height);
        }
        Err(self.cursor.abort("max recursion depth exceeded".to_owned()))
    }

    fn semantic_error(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        self.cursor.errors.report(offset, message);
        self.builder.error(offset)
    }

    /// Fails if no alternative begins with the current token, which `sync` lets pass during recovery.
    fn viable(&self, set: u64) -> Result<(), Fault> {
        let token = self.cursor.peek(0);
        if self.cursor.at(set) { Ok(()) } else { Err(Fault::NoViable(token, token)) }
    }

    fn call(&mut self, offset: u32, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        match macros::expand(&mut self.builder, self.syntax, offset, function, target, args) {
            Ok(expr) => expr,
            Err((at, message)) => self.semantic_error(at, message),
        }
    }

    pub(super) fn expr(&mut self, follow: u64) -> Node {
        if self.depth >= RECURSION {
            self.cursor.abort(format!("expression recursion limit exceeded: {RECURSION}"));
            return Node { expr: self.builder.error(NOWHERE), height: 0 };
        }
        self.depth += 1;
        self.cursor.enter(follow);
        let condition = self.operators(Level::Or, Kind::Question.set() | END);
        let mut slot = Some(condition);
        let outcome = if self.cursor.at(Kind::Question.set()) { self.conditional(&mut slot) } else { Ok(()) };
        self.depth -= 1;
        self.leave("expr", slot, outcome)
    }

    /// The branches of a conditional whose condition is in the slot.
    fn conditional(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        let question = self.cursor.take();
        let yes = self.operators(Level::Or, Kind::Colon.set());
        self.cursor.expect(Kind::Colon, EXPR)?;
        let no = self.expr(END);
        let condition = slot.as_mut().expect("the condition is there");
        let height = self.bounded(condition.height.max(yes.height).max(no.height) + 1)?;
        let args = vec![take(condition), yes.expr, no.expr];
        let expr = self.call(question.start, operator::CONDITIONAL, None, args);
        *slot = Some(Node { expr, height });
        Ok(())
    }

    /// Operands joined by operators that bind at least as tightly as the level says.
    ///
    /// The grammar has a rule for each level. They are entered here together, so that nesting costs one call, and left one after
    /// the other.
    fn operators(&mut self, level: Level, follow: u64) -> Node {
        let (or, and) = (Kind::Or.set() | END, Kind::And.set() | END);
        self.cursor.enter(follow);
        if level == Level::Or {
            self.cursor.enter(or);
        }
        if level <= Level::And {
            self.cursor.enter(and);
        }
        if level <= Level::RelationOperand {
            self.cursor.enter(RELATIONS | END);
        }
        let mut node = self.operand(PRODUCTS | SUMS | END);
        self.arithmetic(level, &mut node);
        self.cursor.leave("calc", Ok(()));
        if level <= Level::RelationOperand {
            self.relations(level, &mut node);
            self.cursor.leave("relation", Ok(()));
        }
        if level <= Level::And {
            self.terms(Kind::And, &mut node);
            self.cursor.leave("and", Ok(()));
        }
        if level == Level::Or {
            self.terms(Kind::Or, &mut node);
            self.cursor.leave("or", Ok(()));
        }
        node
    }

    /// The rest of a sum or product that begins with a node.
    fn arithmetic(&mut self, level: Level, left: &mut Node) {
        let operators = match level {
            Level::Factor => 0,
            Level::Term => PRODUCTS,
            _ => PRODUCTS | SUMS,
        };
        while self.cursor.at(operators) {
            let token = self.cursor.take();
            let level = if token.kind.set() & PRODUCTS == 0 { Level::Term } else { Level::Factor };
            let right = self.operators(level, PRODUCTS | SUMS | END);
            self.binary(left, token, right);
        }
    }

    /// The rest of a chain of comparisons that begins with a node.
    fn relations(&mut self, level: Level, left: &mut Node) {
        while level != Level::RelationOperand && self.cursor.at(RELATIONS) {
            let token = self.cursor.take();
            let right = self.operators(Level::RelationOperand, RELATIONS | END);
            self.binary(left, token, right);
        }
    }

    /// Parses the remaining terms of a chain of `&&` or `||` whose first term is already parsed.
    fn terms(&mut self, joint: Kind, first: &mut Node) {
        if !self.cursor.at(joint.set()) {
            return;
        }
        let (function, level) =
            if joint == Kind::Or { (operator::OR, Level::And) } else { (operator::AND, Level::Relation) };
        let (mut terms, mut offsets) = (vec![take(first)], Vec::new());
        while self.cursor.at(joint.set()) {
            offsets.push(self.cursor.take().start);
            let term = self.operators(level, joint.set() | END);
            first.height = first.height.max(term.height);
            terms.push(term.expr);
        }
        first.expr = balanced(&mut self.builder, function, terms, &offsets);
    }

    /// Joins two nodes; too deep a tree stops parsing.
    fn binary(&mut self, left: &mut Node, token: Token, right: Node) {
        let function = match token.kind {
            Kind::In => operator::IN.to_owned(),
            _ => format!("_{}_", self.cursor.text(token)),
        };
        let Ok(height) = self.bounded(left.height.max(right.height) + 1) else { return };
        left.height = height;
        let first = take(left);
        left.expr = self.builder.call(token.start, &function, vec![first, right.expr]);
    }

    fn operand(&mut self, follow: u64) -> Node {
        self.cursor.enter(follow);
        let mut slot = None;
        let outcome = self.unary(&mut slot);
        self.leave("unary", slot, outcome)
    }

    fn unary(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        self.cursor.sync(EXPR)?;
        self.viable(EXPR)?;
        let (first, next) = (self.cursor.peek(0), self.cursor.peek(1));
        match first.kind {
            Kind::Exclam => return self.prefixed(slot, Kind::Exclam, operator::NOT),
            Kind::Minus if is_number(next.kind) => {}
            Kind::Minus if next.kind.set() & PRIMARY == 0 => return Err(Fault::NoViable(first, next)),
            Kind::Minus => return self.prefixed(slot, Kind::Minus, operator::NEGATE),
            _ => {}
        }
        *slot = Some(self.member(END));
        Ok(())
    }

    /// A member expression after one or more `!` or `-`; a pair of the same operator cancels out.
    fn prefixed(&mut self, slot: &mut Slot, sign: Kind, function: &str) -> Result<(), Fault> {
        let first = self.cursor.take();
        let mut count = 1;
        while self.cursor.at(sign.set()) {
            let (token, next) = (self.cursor.peek(0), self.cursor.peek(1));
            if sign == Kind::Minus && next.kind.set() & PRIMARY == 0 {
                return Err(Fault::NoViable(token, next));
            }
            self.cursor.take();
            count += 1;
        }
        self.cursor.sync_loop(sign.set() | PRIMARY);
        let node = self.member(END);
        *slot = Some(if count % 2 == 0 {
            node
        } else {
            let expr = self.call(first.start, function, None, vec![node.expr]);
            Node { expr, height: node.height }
        });
        Ok(())
    }

    fn member(&mut self, follow: u64) -> Node {
        self.cursor.enter(follow);
        self.cursor.enter(MEMBERS | END);
        let mut slot = None;
        let outcome = self.primary(&mut slot);
        let mut node = self.leave("primary", slot, outcome);
        let outcome = self.selections(&mut node);
        self.leave("member", Some(node), outcome)
    }

    /// The selections, calls and indices behind a primary expression.
    fn selections(&mut self, node: &mut Node) -> Result<(), Fault> {
        while self.cursor.at(MEMBERS) {
            let height = node.height + 1;
            if self.cursor.at(Kind::Dot.set()) {
                self.dot(node)?;
            } else {
                self.index(node)?;
            }
            node.height = self.bounded(node.height.max(height))?;
        }
        Ok(())
    }

    fn dot(&mut self, node: &mut Node) -> Result<(), Fault> {
        let (dot, next, third) = (self.cursor.peek(0), self.cursor.peek(1), self.cursor.peek(2));
        match next.kind {
            Kind::Ident if third.kind == Kind::LeftParen => self.member_call(node),
            Kind::Ident | Kind::EscapedIdent | Kind::Question => self.select(node),
            _ => Err(Fault::NoViable(dot, next)),
        }
    }

    fn select(&mut self, node: &mut Node) -> Result<(), Fault> {
        let dot = self.cursor.take();
        let optional = self.cursor.at(Kind::Question.set());
        if optional {
            self.cursor.take();
        }
        let field = self.field_name(MEMBERS | END);
        let Some((name, at)) = field else { return Ok(()) };
        let operand = take(node);
        node.expr = if !optional {
            self.builder.select(dot.start, operand, name, false)
        } else if self.syntax.optional {
            let name = self.builder.literal(at, Literal::String(name));
            self.builder.call(dot.start, operator::OPT_SELECT, vec![operand, name])
        } else {
            self.semantic_error(dot.start, "unsupported syntax '.?'")
        };
        Ok(())
    }

    /// A field's name, plain or in backquotes, and its offset.
    pub(super) fn field_name(&mut self, follow: u64) -> Option<(Arc<str>, u32)> {
        self.cursor.enter(follow);
        let found = self.cursor.sync(FIELD).and_then(|()| {
            let token = self.cursor.peek(0);
            if self.cursor.at(FIELD) { Ok(self.cursor.take()) } else { Err(Fault::NoViable(token, token)) }
        });
        let (token, outcome) = match found {
            Ok(token) => (Some(token), Ok(())),
            Err(fault) => (None, Err(fault)),
        };
        self.cursor.leave("field", outcome);
        let token = token?;
        let text = self.cursor.text(token);
        if token.kind == Kind::EscapedIdent && !self.syntax.escaped_fields {
            self.cursor.errors.report(token.start, "unsupported syntax: '`'");
        }
        Some((Arc::from(text.trim_matches('`')), token.start))
    }

    fn member_call(&mut self, node: &mut Node) -> Result<(), Fault> {
        self.cursor.take();
        let name = self.cursor.take();
        let open = self.cursor.take();
        let (args, height) = self.args()?;
        node.height = node.height.max(height);
        let (function, target) = (self.cursor.text(name), take(node));
        node.expr = self.call(open.start, &function, Some(target), args);
        Ok(())
    }

    /// Arguments behind an open parenthesis, and the parenthesis that closes them.
    fn args(&mut self) -> Result<(Vec<Expr>, usize), Fault> {
        let (mut args, mut height) = (Vec::new(), 0);
        self.cursor.sync(EXPR | Kind::RightParen.set())?;
        if self.cursor.at(EXPR) {
            self.cursor.enter(Kind::RightParen.set());
            loop {
                let arg = self.expr(Kind::Comma.set() | END);
                height = height.max(arg.height);
                args.push(arg.expr);
                if !self.cursor.at(Kind::Comma.set()) {
                    break;
                }
                self.cursor.take();
            }
            self.cursor.leave("arguments", Ok(()));
        }
        self.cursor.expect(Kind::RightParen, MEMBERS | END)?;
        Ok((args, height))
    }

    fn index(&mut self, node: &mut Node) -> Result<(), Fault> {
        let open = self.cursor.take();
        self.cursor.sync(EXPR | Kind::Question.set())?;
        let optional = self.cursor.at(Kind::Question.set());
        if optional {
            self.cursor.take();
        }
        let index = self.expr(Kind::RightBracket.set());
        self.cursor.expect(Kind::RightBracket, MEMBERS | END)?;
        node.height = node.height.max(index.height);
        let operand = take(node);
        let function = if optional { operator::OPT_INDEX } else { operator::INDEX };
        node.expr = if optional && !self.syntax.optional {
            self.semantic_error(open.start, "unsupported syntax '[?'")
        } else {
            self.builder.call(open.start, function, vec![operand, index.expr])
        };
        Ok(())
    }

    fn primary(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        self.cursor.sync(PRIMARY)?;
        self.viable(PRIMARY)?;
        match self.cursor.peek(0).kind {
            Kind::LeftParen => {
                self.cursor.take();
                *slot = Some(self.expr(Kind::RightParen.set()));
                self.cursor.expect(Kind::RightParen, END).map(|_| ())
            }
            Kind::LeftBracket => self.list(slot),
            Kind::LeftBrace => self.map(slot),
            Kind::Dot | Kind::Ident => self.name(slot),
            _ => {
                self.cursor.enter(END);
                let outcome = self.literal(slot);
                self.cursor.leave("literal", outcome);
                Ok(())
            }
        }
    }

    fn name(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        let dot = self.cursor.peek(0);
        let leading = usize::from(dot.kind == Kind::Dot);
        let name = self.cursor.peek(leading);
        if name.kind != Kind::Ident {
            return Err(Fault::NoViable(dot, name));
        }
        let mut end = leading + 1;
        while self.cursor.peek(end).kind == Kind::Dot && self.cursor.peek(end + 1).kind == Kind::Ident {
            end += 2;
        }
        if self.cursor.peek(end).kind == Kind::LeftBrace {
            return self.message(slot, end);
        }
        for _ in 0..=leading {
            self.cursor.take();
        }
        let text = self.cursor.text(name);
        let full = if leading == 1 { format!(".{text}") } else { text.clone() };
        let call = self.cursor.at(Kind::LeftParen.set()).then(|| self.cursor.take());
        let arguments = call.map(|open| self.args().map(|args| (open, args))).transpose()?;
        let reserved = RESERVED.contains(&text.as_str());
        *slot = Some(match arguments {
            _ if reserved => {
                let expr = self.semantic_error(dot.start, format!("reserved identifier: {text}"));
                Node { expr, height: 0 }
            }
            Some((open, (args, height))) => Node { expr: self.call(open.start, &full, None, args), height },
            None => Node { expr: self.builder.ident(name.start, &full), height: 0 },
        });
        Ok(())
    }

    fn literal(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        let (first, second) = (self.cursor.peek(0), self.cursor.peek(1));
        let negative = first.kind == Kind::Minus;
        if negative && !is_number(second.kind) {
            return Err(Fault::NoViable(first, second));
        }
        let mut text = String::new();
        for _ in 0..=usize::from(negative) {
            let token = self.cursor.take();
            text += &self.cursor.text(token);
        }
        let value = match if negative { second.kind } else { first.kind } {
            Kind::Int => literal::int(&text),
            Kind::Uint => literal::uint(&text),
            Kind::Float => literal::double(&text),
            Kind::String => literal::string(&text),
            Kind::Bytes => literal::bytes(&text),
            Kind::True => Ok(Literal::Bool(true)),
            Kind::False => Ok(Literal::Bool(false)),
            Kind::Null => Ok(Literal::Null),
            _ => return Err(Fault::NoViable(first, first)),
        };
        let expr = match value {
            Ok(value) => self.builder.literal(first.start, value),
            Err(message) => self.semantic_error(first.start, message),
        };
        *slot = Some(Node { expr, height: 0 });
        Ok(())
    }
}

fn is_number(kind: Kind) -> bool {
    matches!(kind, Kind::Int | Kind::Float)
}

/// The expression of a node that is about to become part of another.
fn take(node: &mut Node) -> Expr {
    std::mem::replace(&mut node.expr, Expr { id: 0, kind: ExprKind::Error })
}

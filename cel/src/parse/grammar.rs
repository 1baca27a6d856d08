//! The grammar: one function for each rule, with the lookahead of ANTLR's parser, so that errors are found at the same tokens.

use super::builder::{Builder, balanced, operator};
use super::recover::{Cursor, END, SyntaxFault};
use super::token::{Token, TokenKind};
use super::{Syntax, literal, macros};
use crate::ast::{Ast, Expr, ExprKind, Literal};
use crate::limits::RECURSION;
use crate::source::{ErrorSink, NOWHERE};
use std::sync::Arc;

const LITERALS: u64 = TokenKind::True.set()
    | TokenKind::False.set()
    | TokenKind::Null.set()
    | TokenKind::Float.set()
    | TokenKind::Int.set()
    | TokenKind::Uint.set()
    | TokenKind::String.set()
    | TokenKind::Bytes.set();
/// Tokens that begin a primary expression; a minus begins a negative number.
const PRIMARY: u64 = LITERALS
    | TokenKind::LeftBracket.set()
    | TokenKind::LeftBrace.set()
    | TokenKind::LeftParen.set()
    | TokenKind::Dot.set()
    | TokenKind::Minus.set()
    | TokenKind::Ident.set();
/// Tokens that begin an expression.
pub(super) const EXPR: u64 = PRIMARY | TokenKind::Exclam.set();
const RELATIONS: u64 = TokenKind::Less.set()
    | TokenKind::LessEquals.set()
    | TokenKind::GreaterEquals.set()
    | TokenKind::Greater.set()
    | TokenKind::Equals.set()
    | TokenKind::NotEquals.set()
    | TokenKind::In.set();
const PRODUCTS: u64 = TokenKind::Star.set() | TokenKind::Slash.set() | TokenKind::Percent.set();
const SUMS: u64 = TokenKind::Plus.set() | TokenKind::Minus.set();
pub(super) const MEMBERS: u64 = TokenKind::Dot.set() | TokenKind::LeftBracket.set();
pub(super) const FIELD: u64 = TokenKind::Ident.set() | TokenKind::EscapedIdent.set();

/// Reserved names of the language. Fields may have them.
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

/// A parsed expression and the nesting depth of its operators.
pub(super) struct ParsedNode {
    pub(super) expr: Expr,
    pub(super) height: usize,
}

/// The precedence of operators, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Precedence {
    Or,
    And,
    Relation,
    /// The right side of a comparison, which contains no further comparison.
    RelationOperand,
    /// The right side of a sum.
    Term,
    /// The right side of a product.
    Factor,
}

/// The node that a rule parsed; none after a syntax error.
pub(super) type RuleResult = Option<ParsedNode>;

/// Parses one expression.
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

    /// Parses the whole text.
    pub(super) fn start(mut self) -> (Ast, ErrorSink) {
        let mut root = None;
        self.cursor.enter(0);
        let outcome = {
            root = Some(self.expr(TokenKind::Eof.set())).or(root);
            self.cursor.expect(TokenKind::Eof, 0).map(|_| ())
        };
        self.cursor.leave("start", outcome);
        let root = root.expect("the rule leaves an expression").expr;
        (self.builder.finish(root), self.cursor.errors)
    }

    /// Ends a rule: returns its node, or an error node if it has none.
    fn leave(
        &mut self,
        rule: &'static str,
        result: RuleResult,
        outcome: Result<(), SyntaxFault>,
    ) -> ParsedNode {
        self.cursor.leave(rule, outcome);
        result.unwrap_or_else(|| {
            let offset = self.cursor.peek(0).start;
            ParsedNode { expr: self.builder.error(offset), height: 0 }
        })
    }

    /// Checks the height of a new node against the limit; stops parsing beyond it.
    fn bounded(&mut self, height: usize) -> Result<usize, SyntaxFault> {
        if height <= RECURSION {
            return Ok(height);
        }
        Err(self.cursor.abort("max recursion depth exceeded".to_owned()))
    }

    fn semantic_error(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        self.cursor.errors.report(offset, message);
        self.builder.error(offset)
    }

    /// Fails if no alternative begins with the current token. `sync` does not report this during recovery.
    fn viable(&self, set: u64) -> Result<(), SyntaxFault> {
        let token = self.cursor.peek(0);
        if self.cursor.at(set) { Ok(()) } else { Err(SyntaxFault::NoViable(token, token)) }
    }

    fn call(&mut self, offset: u32, function: &str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        match macros::expand(&mut self.builder, self.syntax, offset, function, target, args) {
            Ok(expr) => expr,
            Err((at, message)) => self.semantic_error(at, message),
        }
    }

    pub(super) fn expr(&mut self, follow: u64) -> ParsedNode {
        if self.depth >= RECURSION {
            self.cursor.abort(format!("expression recursion limit exceeded: {RECURSION}"));
            return ParsedNode { expr: self.builder.error(NOWHERE), height: 0 };
        }
        self.depth += 1;
        self.cursor.enter(follow);
        let condition = self.operators(Precedence::Or, TokenKind::Question.set() | END);
        let mut result = Some(condition);
        let outcome =
            if self.cursor.at(TokenKind::Question.set()) { self.conditional(&mut result) } else { Ok(()) };
        self.depth -= 1;
        self.leave("expr", result, outcome)
    }

    /// Parses the branches of a conditional whose condition is parsed.
    fn conditional(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        let question = self.cursor.take();
        let yes = self.operators(Precedence::Or, TokenKind::Colon.set());
        self.cursor.expect(TokenKind::Colon, EXPR)?;
        let no = self.expr(END);
        let condition = result.as_mut().expect("the condition is there");
        let height = self.bounded(condition.height.max(yes.height).max(no.height) + 1)?;
        let args = vec![take(condition), yes.expr, no.expr];
        let expr = self.call(question.start, operator::CONDITIONAL, None, args);
        *result = Some(ParsedNode { expr, height });
        Ok(())
    }

    /// Parses operands that are joined by operators of at least the given precedence.
    ///
    /// The grammar has a rule for each precedence. This function enters them together, so that nesting costs one call, and leaves them
    /// one after the other.
    fn operators(&mut self, level: Precedence, follow: u64) -> ParsedNode {
        let (or, and) = (TokenKind::Or.set() | END, TokenKind::And.set() | END);
        self.cursor.enter(follow);
        if level == Precedence::Or {
            self.cursor.enter(or);
        }
        if level <= Precedence::And {
            self.cursor.enter(and);
        }
        if level <= Precedence::RelationOperand {
            self.cursor.enter(RELATIONS | END);
        }
        let mut node = self.operand(PRODUCTS | SUMS | END);
        self.arithmetic(level, &mut node);
        self.cursor.leave("calc", Ok(()));
        if level <= Precedence::RelationOperand {
            self.relations(level, &mut node);
            self.cursor.leave("relation", Ok(()));
        }
        if level <= Precedence::And {
            self.terms(TokenKind::And, &mut node);
            self.cursor.leave("and", Ok(()));
        }
        if level == Precedence::Or {
            self.terms(TokenKind::Or, &mut node);
            self.cursor.leave("or", Ok(()));
        }
        node
    }

    /// Parses the rest of a sum or product after its first operand.
    fn arithmetic(&mut self, level: Precedence, left: &mut ParsedNode) {
        let operators = match level {
            Precedence::Factor => 0,
            Precedence::Term => PRODUCTS,
            _ => PRODUCTS | SUMS,
        };
        while self.cursor.at(operators) {
            let token = self.cursor.take();
            let level = if token.kind.set() & PRODUCTS == 0 { Precedence::Term } else { Precedence::Factor };
            let right = self.operators(level, PRODUCTS | SUMS | END);
            self.binary(left, token, right);
        }
    }

    /// Parses the rest of a chain of comparisons after its first operand.
    fn relations(&mut self, level: Precedence, left: &mut ParsedNode) {
        while level != Precedence::RelationOperand && self.cursor.at(RELATIONS) {
            let token = self.cursor.take();
            let right = self.operators(Precedence::RelationOperand, RELATIONS | END);
            self.binary(left, token, right);
        }
    }

    /// Parses the rest of a chain of `&&` or `||` after its first term.
    fn terms(&mut self, joint: TokenKind, first: &mut ParsedNode) {
        if !self.cursor.at(joint.set()) {
            return;
        }
        let (function, level) = if joint == TokenKind::Or {
            (operator::OR, Precedence::And)
        } else {
            (operator::AND, Precedence::Relation)
        };
        let (mut terms, mut offsets) = (vec![take(first)], Vec::new());
        while self.cursor.at(joint.set()) {
            offsets.push(self.cursor.take().start);
            let term = self.operators(level, joint.set() | END);
            first.height = first.height.max(term.height);
            terms.push(term.expr);
        }
        first.expr = balanced(&mut self.builder, function, terms, &offsets);
    }

    /// Joins two nodes by an operator; stops parsing if the tree is too deep.
    fn binary(&mut self, left: &mut ParsedNode, token: Token, right: ParsedNode) {
        let function = match token.kind {
            TokenKind::In => operator::IN.to_owned(),
            _ => format!("_{}_", self.cursor.text(token)),
        };
        let Ok(height) = self.bounded(left.height.max(right.height) + 1) else { return };
        left.height = height;
        let first = take(left);
        left.expr = self.builder.call(token.start, &function, vec![first, right.expr]);
    }

    fn operand(&mut self, follow: u64) -> ParsedNode {
        self.cursor.enter(follow);
        let mut result = None;
        let outcome = self.unary(&mut result);
        self.leave("unary", result, outcome)
    }

    fn unary(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        self.cursor.sync(EXPR)?;
        self.viable(EXPR)?;
        let (first, next) = (self.cursor.peek(0), self.cursor.peek(1));
        match first.kind {
            TokenKind::Exclam => return self.prefixed(result, TokenKind::Exclam, operator::NOT),
            TokenKind::Minus if is_number(next.kind) => {}
            TokenKind::Minus if next.kind.set() & PRIMARY == 0 => {
                return Err(SyntaxFault::NoViable(first, next));
            }
            TokenKind::Minus => return self.prefixed(result, TokenKind::Minus, operator::NEGATE),
            _ => {}
        }
        *result = Some(self.member(END));
        Ok(())
    }

    /// Parses a member expression after one or more `!` or `-`. A pair of equal operators cancels out.
    fn prefixed(
        &mut self,
        result: &mut RuleResult,
        sign: TokenKind,
        function: &str,
    ) -> Result<(), SyntaxFault> {
        let first = self.cursor.take();
        let mut count = 1;
        while self.cursor.at(sign.set()) {
            let (token, next) = (self.cursor.peek(0), self.cursor.peek(1));
            if sign == TokenKind::Minus && next.kind.set() & PRIMARY == 0 {
                return Err(SyntaxFault::NoViable(token, next));
            }
            self.cursor.take();
            count += 1;
        }
        self.cursor.sync_loop(sign.set() | PRIMARY);
        let node = self.member(END);
        *result = Some(if count % 2 == 0 {
            node
        } else {
            let expr = self.call(first.start, function, None, vec![node.expr]);
            ParsedNode { expr, height: node.height }
        });
        Ok(())
    }

    fn member(&mut self, follow: u64) -> ParsedNode {
        self.cursor.enter(follow);
        self.cursor.enter(MEMBERS | END);
        let mut result = None;
        let outcome = self.primary(&mut result);
        let mut node = self.leave("primary", result, outcome);
        let outcome = self.selections(&mut node);
        self.leave("member", Some(node), outcome)
    }

    /// Parses the selections, method calls and indices after a primary expression.
    fn selections(&mut self, node: &mut ParsedNode) -> Result<(), SyntaxFault> {
        while self.cursor.at(MEMBERS) {
            let height = node.height + 1;
            if self.cursor.at(TokenKind::Dot.set()) {
                self.dot(node)?;
            } else {
                self.index(node)?;
            }
            node.height = self.bounded(node.height.max(height))?;
        }
        Ok(())
    }

    fn dot(&mut self, node: &mut ParsedNode) -> Result<(), SyntaxFault> {
        let (dot, next, third) = (self.cursor.peek(0), self.cursor.peek(1), self.cursor.peek(2));
        match next.kind {
            TokenKind::Ident if third.kind == TokenKind::LeftParen => self.member_call(node),
            TokenKind::Ident | TokenKind::EscapedIdent | TokenKind::Question => self.select(node),
            _ => Err(SyntaxFault::NoViable(dot, next)),
        }
    }

    fn select(&mut self, node: &mut ParsedNode) -> Result<(), SyntaxFault> {
        let dot = self.cursor.take();
        let optional = self.cursor.at(TokenKind::Question.set());
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

    /// Parses the name of a field, plain or in backquotes, with its offset.
    pub(super) fn field_name(&mut self, follow: u64) -> Option<(Arc<str>, u32)> {
        self.cursor.enter(follow);
        let found = self.cursor.sync(FIELD).and_then(|()| {
            let token = self.cursor.peek(0);
            if self.cursor.at(FIELD) {
                Ok(self.cursor.take())
            } else {
                Err(SyntaxFault::NoViable(token, token))
            }
        });
        let (token, outcome) = match found {
            Ok(token) => (Some(token), Ok(())),
            Err(fault) => (None, Err(fault)),
        };
        self.cursor.leave("field", outcome);
        let token = token?;
        let text = self.cursor.text(token);
        if token.kind == TokenKind::EscapedIdent && !self.syntax.escaped_fields {
            self.cursor.errors.report(token.start, "unsupported syntax: '`'");
        }
        Some((Arc::from(text.trim_matches('`')), token.start))
    }

    fn member_call(&mut self, node: &mut ParsedNode) -> Result<(), SyntaxFault> {
        self.cursor.take();
        let name = self.cursor.take();
        let open = self.cursor.take();
        let (args, height) = self.args()?;
        node.height = node.height.max(height);
        let (function, target) = (self.cursor.text(name), take(node));
        node.expr = self.call(open.start, &function, Some(target), args);
        Ok(())
    }

    /// Parses arguments after an open parenthesis, and the closing parenthesis.
    fn args(&mut self) -> Result<(Vec<Expr>, usize), SyntaxFault> {
        let (mut args, mut height) = (Vec::new(), 0);
        self.cursor.sync(EXPR | TokenKind::RightParen.set())?;
        if self.cursor.at(EXPR) {
            self.cursor.enter(TokenKind::RightParen.set());
            loop {
                let arg = self.expr(TokenKind::Comma.set() | END);
                height = height.max(arg.height);
                args.push(arg.expr);
                if !self.cursor.at(TokenKind::Comma.set()) {
                    break;
                }
                self.cursor.take();
            }
            self.cursor.leave("arguments", Ok(()));
        }
        self.cursor.expect(TokenKind::RightParen, MEMBERS | END)?;
        Ok((args, height))
    }

    fn index(&mut self, node: &mut ParsedNode) -> Result<(), SyntaxFault> {
        let open = self.cursor.take();
        self.cursor.sync(EXPR | TokenKind::Question.set())?;
        let optional = self.cursor.at(TokenKind::Question.set());
        if optional {
            self.cursor.take();
        }
        let index = self.expr(TokenKind::RightBracket.set());
        self.cursor.expect(TokenKind::RightBracket, MEMBERS | END)?;
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

    fn primary(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        self.cursor.sync(PRIMARY)?;
        self.viable(PRIMARY)?;
        match self.cursor.peek(0).kind {
            TokenKind::LeftParen => {
                self.cursor.take();
                *result = Some(self.expr(TokenKind::RightParen.set()));
                self.cursor.expect(TokenKind::RightParen, END).map(|_| ())
            }
            TokenKind::LeftBracket => self.list(result),
            TokenKind::LeftBrace => self.map(result),
            TokenKind::Dot | TokenKind::Ident => self.name(result),
            _ => {
                self.cursor.enter(END);
                let outcome = self.literal(result);
                self.cursor.leave("literal", outcome);
                Ok(())
            }
        }
    }

    fn name(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        let dot = self.cursor.peek(0);
        let leading = usize::from(dot.kind == TokenKind::Dot);
        let name = self.cursor.peek(leading);
        if name.kind != TokenKind::Ident {
            return Err(SyntaxFault::NoViable(dot, name));
        }
        let mut end = leading + 1;
        while self.cursor.peek(end).kind == TokenKind::Dot
            && self.cursor.peek(end + 1).kind == TokenKind::Ident
        {
            end += 2;
        }
        if self.cursor.peek(end).kind == TokenKind::LeftBrace {
            return self.message(result, end);
        }
        for _ in 0..=leading {
            self.cursor.take();
        }
        let text = self.cursor.text(name);
        let full = if leading == 1 { format!(".{text}") } else { text.clone() };
        let call = self.cursor.at(TokenKind::LeftParen.set()).then(|| self.cursor.take());
        let arguments = call.map(|open| self.args().map(|args| (open, args))).transpose()?;
        let reserved = RESERVED.contains(&text.as_str());
        *result = Some(match arguments {
            _ if reserved => {
                let expr = self.semantic_error(dot.start, format!("reserved identifier: {text}"));
                ParsedNode { expr, height: 0 }
            }
            Some((open, (args, height))) => {
                ParsedNode { expr: self.call(open.start, &full, None, args), height }
            }
            None => ParsedNode { expr: self.builder.ident(name.start, &full), height: 0 },
        });
        Ok(())
    }

    fn literal(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        let (first, second) = (self.cursor.peek(0), self.cursor.peek(1));
        let negative = first.kind == TokenKind::Minus;
        if negative && !is_number(second.kind) {
            return Err(SyntaxFault::NoViable(first, second));
        }
        let mut text = String::new();
        for _ in 0..=usize::from(negative) {
            let token = self.cursor.take();
            text += &self.cursor.text(token);
        }
        let value = match if negative { second.kind } else { first.kind } {
            TokenKind::Int => literal::int(&text),
            TokenKind::Uint => literal::uint(&text),
            TokenKind::Float => literal::double(&text),
            TokenKind::String => literal::string(&text),
            TokenKind::Bytes => literal::bytes(&text),
            TokenKind::True => Ok(Literal::Bool(true)),
            TokenKind::False => Ok(Literal::Bool(false)),
            TokenKind::Null => Ok(Literal::Null),
            _ => return Err(SyntaxFault::NoViable(first, first)),
        };
        let expr = match value {
            Ok(value) => self.builder.literal(first.start, value),
            Err(message) => self.semantic_error(first.start, message),
        };
        *result = Some(ParsedNode { expr, height: 0 });
        Ok(())
    }
}

fn is_number(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Int | TokenKind::Float)
}

/// The expression of a node that becomes an operand of another.
fn take(node: &mut ParsedNode) -> Expr {
    std::mem::replace(&mut node.expr, Expr { id: 0, kind: ExprKind::Error })
}

//! The grammar of list, map and object literals.

use super::grammar::{EXPR, FIELD, MEMBERS, ParsedNode, Parser, RuleResult};
use super::recover::{END, SyntaxFault};
use super::token::TokenKind;
use crate::ast::{Expr, ExprKind, FieldInit, ListLiteral, MapEntry, StructLiteral};
use std::sync::Arc;

impl Parser<'_> {
    /// Parses an object literal whose name has `tokens` tokens.
    pub(super) fn message(&mut self, result: &mut RuleResult, tokens: usize) -> Result<(), SyntaxFault> {
        let name: String = (0..tokens)
            .map(|_| {
                let token = self.cursor.take();
                self.cursor.text(token)
            })
            .collect();
        let open = self.cursor.take();
        let end = TokenKind::RightBrace.set();
        self.cursor.sync(FIELD | TokenKind::Question.set() | TokenKind::Comma.set() | end)?;
        let (mut fields, mut height) = (Vec::new(), 0);
        if self.cursor.at(FIELD | TokenKind::Question.set()) {
            self.cursor.enter(TokenKind::Comma.set() | end);
            let outcome = self.fields(&mut fields, &mut height);
            self.cursor.leave("fields", outcome);
        }
        self.trailing_comma();
        self.cursor.expect(TokenKind::RightBrace, MEMBERS | END)?;
        let id = self.builder.id(open.start);
        let literal = StructLiteral { type_name: Arc::from(name), fields };
        *result = Some(ParsedNode { expr: Expr { id, kind: ExprKind::Struct(Box::new(literal)) }, height });
        Ok(())
    }

    fn fields(&mut self, fields: &mut Vec<FieldInit>, height: &mut usize) -> Result<(), SyntaxFault> {
        loop {
            let optional = self.optional_mark();
            let name = self.field_name(TokenKind::Colon.set());
            let colon = self.cursor.expect(TokenKind::Colon, EXPR)?;
            let id = self.builder.id(colon.start);
            let value = self.expr(TokenKind::Comma.set() | END);
            *height = (*height).max(value.height);
            if let Some((name, _)) = name {
                fields.push(FieldInit { id, name, value: value.expr, optional });
            }
            if !self.continues(FIELD | TokenKind::Question.set()) {
                return Ok(());
            }
        }
    }

    /// Consumes the mark `?` of an optional element, entry or field, if there is one.
    fn optional_mark(&mut self) -> bool {
        let optional = self.cursor.at(TokenKind::Question.set());
        if optional {
            let mark = self.cursor.take();
            if !self.syntax.optional {
                self.cursor.errors.report(mark.start, "unsupported syntax '?'");
            }
        }
        optional
    }

    /// Consumes a comma if another element follows it.
    fn continues(&mut self, element: u64) -> bool {
        let more = self.cursor.at(TokenKind::Comma.set()) && self.cursor.peek(1).kind.set() & element != 0;
        if more {
            self.cursor.take();
        }
        more
    }

    fn trailing_comma(&mut self) {
        if self.cursor.at(TokenKind::Comma.set()) {
            self.cursor.take();
        }
    }

    pub(super) fn list(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        let open = self.cursor.take();
        let id = self.builder.id(open.start);
        let (start, end) = (EXPR | TokenKind::Question.set(), TokenKind::RightBracket.set());
        self.cursor.sync(start | TokenKind::Comma.set() | end)?;
        let (mut list, mut height) = (ListLiteral::default(), 0);
        if self.cursor.at(start) {
            self.cursor.enter(TokenKind::Comma.set() | end);
            loop {
                list.optional.push(self.optional_mark());
                let element = self.expr(TokenKind::Comma.set() | END);
                height = height.max(element.height);
                list.elements.push(element.expr);
                if !self.continues(start) {
                    break;
                }
            }
            self.cursor.leave("elements", Ok(()));
        }
        self.trailing_comma();
        self.cursor.expect(TokenKind::RightBracket, MEMBERS | END)?;
        *result = Some(ParsedNode { expr: Expr { id, kind: ExprKind::List(list) }, height });
        Ok(())
    }

    pub(super) fn map(&mut self, result: &mut RuleResult) -> Result<(), SyntaxFault> {
        let open = self.cursor.take();
        let id = self.builder.id(open.start);
        let (start, end) = (EXPR | TokenKind::Question.set(), TokenKind::RightBrace.set());
        self.cursor.sync(start | TokenKind::Comma.set() | end)?;
        let (mut entries, mut height) = (Vec::new(), 0);
        if self.cursor.at(start) {
            self.cursor.enter(TokenKind::Comma.set() | end);
            let outcome = self.entries(&mut entries, &mut height);
            self.cursor.leave("entries", outcome);
        }
        self.trailing_comma();
        self.cursor.expect(TokenKind::RightBrace, MEMBERS | END)?;
        *result = Some(ParsedNode { expr: Expr { id, kind: ExprKind::Map(entries) }, height });
        Ok(())
    }

    fn entries(&mut self, entries: &mut Vec<MapEntry>, height: &mut usize) -> Result<(), SyntaxFault> {
        loop {
            let optional = self.optional_mark();
            let key = self.expr(TokenKind::Colon.set());
            let colon = self.cursor.expect(TokenKind::Colon, EXPR)?;
            let id = self.builder.id(colon.start);
            let value = self.expr(TokenKind::Comma.set() | END);
            *height = (*height).max(key.height).max(value.height);
            entries.push(MapEntry { id, key: key.expr, value: value.expr, optional });
            if !self.continues(EXPR | TokenKind::Question.set()) {
                return Ok(());
            }
        }
    }
}

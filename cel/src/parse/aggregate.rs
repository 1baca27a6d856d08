//! Literals of lists, maps and structs.

use super::grammar::{EXPR, FIELD, MEMBERS, Node, Parser, Slot};
use super::recover::{END, Fault};
use super::token::Kind;
use crate::ast::{Expr, ExprKind, FieldInit, ListLiteral, MapEntry, StructLiteral};
use std::sync::Arc;

impl Parser<'_> {
    /// A struct literal whose name takes `tokens` tokens.
    pub(super) fn message(&mut self, slot: &mut Slot, tokens: usize) -> Result<(), Fault> {
        let name: String = (0..tokens)
            .map(|_| {
                let token = self.cursor.take();
                self.cursor.text(token)
            })
            .collect();
        let open = self.cursor.take();
        let end = Kind::RightBrace.set();
        self.cursor.sync(FIELD | Kind::Question.set() | Kind::Comma.set() | end)?;
        let (mut fields, mut height) = (Vec::new(), 0);
        if self.cursor.at(FIELD | Kind::Question.set()) {
            self.cursor.enter(Kind::Comma.set() | end);
            let outcome = self.fields(&mut fields, &mut height);
            self.cursor.leave("fields", outcome);
        }
        self.trailing_comma();
        self.cursor.expect(Kind::RightBrace, MEMBERS | END)?;
        let id = self.builder.id(open.start);
        let literal = StructLiteral { type_name: Arc::from(name), fields };
        *slot = Some(Node { expr: Expr { id, kind: ExprKind::Struct(Box::new(literal)) }, height });
        Ok(())
    }

    fn fields(&mut self, fields: &mut Vec<FieldInit>, height: &mut usize) -> Result<(), Fault> {
        loop {
            let optional = self.optional_mark();
            let name = self.field_name(Kind::Colon.set());
            let colon = self.cursor.expect(Kind::Colon, EXPR)?;
            let id = self.builder.id(colon.start);
            let value = self.expr(Kind::Comma.set() | END);
            *height = (*height).max(value.height);
            if let Some((name, _)) = name {
                fields.push(FieldInit { id, name, value: value.expr, optional });
            }
            if !self.continues(FIELD | Kind::Question.set()) {
                return Ok(());
            }
        }
    }

    /// Takes the mark of an optional element, entry or field.
    fn optional_mark(&mut self) -> bool {
        let optional = self.cursor.at(Kind::Question.set());
        if optional {
            let mark = self.cursor.take();
            if !self.syntax.optional {
                self.cursor.errors.report(mark.start, "unsupported syntax '?'");
            }
        }
        optional
    }

    /// Takes a comma if another element follows it.
    fn continues(&mut self, element: u64) -> bool {
        let more = self.cursor.at(Kind::Comma.set()) && self.cursor.peek(1).kind.set() & element != 0;
        if more {
            self.cursor.take();
        }
        more
    }

    fn trailing_comma(&mut self) {
        if self.cursor.at(Kind::Comma.set()) {
            self.cursor.take();
        }
    }

    pub(super) fn list(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        let open = self.cursor.take();
        let id = self.builder.id(open.start);
        let (start, end) = (EXPR | Kind::Question.set(), Kind::RightBracket.set());
        self.cursor.sync(start | Kind::Comma.set() | end)?;
        let (mut list, mut height) = (ListLiteral::default(), 0);
        if self.cursor.at(start) {
            self.cursor.enter(Kind::Comma.set() | end);
            loop {
                list.optional.push(self.optional_mark());
                let element = self.expr(Kind::Comma.set() | END);
                height = height.max(element.height);
                list.elements.push(element.expr);
                if !self.continues(start) {
                    break;
                }
            }
            self.cursor.leave("elements", Ok(()));
        }
        self.trailing_comma();
        self.cursor.expect(Kind::RightBracket, MEMBERS | END)?;
        *slot = Some(Node { expr: Expr { id, kind: ExprKind::List(list) }, height });
        Ok(())
    }

    pub(super) fn map(&mut self, slot: &mut Slot) -> Result<(), Fault> {
        let open = self.cursor.take();
        let id = self.builder.id(open.start);
        let (start, end) = (EXPR | Kind::Question.set(), Kind::RightBrace.set());
        self.cursor.sync(start | Kind::Comma.set() | end)?;
        let (mut entries, mut height) = (Vec::new(), 0);
        if self.cursor.at(start) {
            self.cursor.enter(Kind::Comma.set() | end);
            let outcome = self.entries(&mut entries, &mut height);
            self.cursor.leave("entries", outcome);
        }
        self.trailing_comma();
        self.cursor.expect(Kind::RightBrace, MEMBERS | END)?;
        *slot = Some(Node { expr: Expr { id, kind: ExprKind::Map(entries) }, height });
        Ok(())
    }

    fn entries(&mut self, entries: &mut Vec<MapEntry>, height: &mut usize) -> Result<(), Fault> {
        loop {
            let optional = self.optional_mark();
            let key = self.expr(Kind::Colon.set());
            let colon = self.cursor.expect(Kind::Colon, EXPR)?;
            let id = self.builder.id(colon.start);
            let value = self.expr(Kind::Comma.set() | END);
            *height = (*height).max(key.height).max(value.height);
            entries.push(MapEntry { id, key: key.expr, value: value.expr, optional });
            if !self.continues(EXPR | Kind::Question.set()) {
                return Ok(());
            }
        }
    }
}

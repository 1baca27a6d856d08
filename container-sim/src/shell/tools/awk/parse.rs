//! The parser of awk.

use super::lexer::{Lexer, Token};
use super::tree::{Expr, Function, Pattern, Program, Statement};
use crate::limits::NESTED_EXPRESSIONS;
use crate::shell::regex::Regex;

/// Functions of the language.
pub(super) const FUNCTIONS: [&str; 24] = [
    "length", "substr", "index", "split", "sub", "gsub", "match", "sprintf", "sin", "cos", "atan2", "exp",
    "log", "sqrt", "int", "rand", "srand", "tolower", "toupper", "close", "fflush", "systime", "and", "or",
];

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// Above 0 inside of `for (`, where `in` is not an operator of expressions.
    no_in: bool,
    /// Inside of `print`, where `>` is a redirection.
    no_greater: bool,
    depth: usize,
    called: Vec<String>,
}

/// Parses a program.
///
/// # Errors
/// The text of the error.
pub(super) fn parse(text: &str) -> Result<Program, String> {
    let mut lexer = Lexer::new(text);
    let token = lexer.next()?;
    let mut parser = Parser { lexer, token, no_in: false, no_greater: false, depth: 0, called: Vec::new() };
    let mut program = Program::default();
    loop {
        parser.skip_ends()?;
        if parser.token == Token::End {
            break;
        }
        parser.item(&mut program)?;
    }
    match parser.called.iter().find(|name| !program.functions.contains_key(*name)) {
        Some(name) => Err(format!("call to undefined function '{name}'")),
        None => Ok(program),
    }
}

impl Parser<'_> {
    fn advance(&mut self) -> Result<Token, String> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn is(&self, mark: &str) -> bool {
        matches!(&self.token, Token::Mark(own) if *own == mark)
    }

    fn skip(&mut self, mark: &str) -> Result<bool, String> {
        let found = self.is(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.skip(mark)? { Ok(()) } else { Err(format!("expected '{mark}'")) }
    }

    fn skip_newlines(&mut self) -> Result<(), String> {
        while self.token == Token::Newline {
            self.advance()?;
        }
        Ok(())
    }

    fn skip_ends(&mut self) -> Result<(), String> {
        while self.token == Token::Newline || self.is(";") {
            self.advance()?;
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > 2 * NESTED_EXPRESSIONS { Err("nested too deeply".to_owned()) } else { Ok(()) }
    }

    fn name(&mut self) -> Result<String, String> {
        match self.advance()? {
            Token::Name(name) | Token::Function(name) => Ok(name),
            _ => Err("expected a name".to_owned()),
        }
    }

    fn item(&mut self, program: &mut Program) -> Result<(), String> {
        if self.skip("BEGIN")? {
            program.begin.push(self.block()?);
        } else if self.skip("END")? {
            program.end.push(self.block()?);
        } else if self.skip("function")? || self.skip("func")? {
            let name = self.name()?;
            self.expect("(")?;
            let mut parameters = Vec::new();
            while !self.skip(")")? {
                parameters.push(self.name()?);
                self.skip(",")?;
                self.skip_newlines()?;
            }
            self.skip_newlines()?;
            let body = self.block()?;
            program.functions.insert(name, Function { parameters, body });
        } else if self.is("{") {
            let body = self.block()?;
            program.rules.push((Pattern::Always, Some(body)));
        } else {
            let first = self.expr()?;
            let pattern = match self.skip(",")? {
                true => {
                    self.skip_newlines()?;
                    Pattern::Range(first, self.expr()?)
                }
                false => Pattern::Expr(first),
            };
            let body = if self.is("{") { Some(self.block()?) } else { None };
            program.rules.push((pattern, body));
        }
        Ok(())
    }

    fn block(&mut self) -> Result<Statement, String> {
        self.enter()?;
        self.expect("{")?;
        let mut all = Vec::new();
        loop {
            self.skip_ends()?;
            if self.skip("}")? {
                self.depth -= 1;
                return Ok(Statement::Block(all));
            }
            if self.token == Token::End {
                return Err("unexpected end of program".to_owned());
            }
            all.push(self.statement()?);
        }
    }

    /// A statement that may be on the next line, as after `if (…)`.
    fn body(&mut self) -> Result<Box<Statement>, String> {
        self.skip_newlines()?;
        if self.skip(";")? {
            return Ok(Box::new(Statement::Block(Vec::new())));
        }
        self.statement().map(Box::new)
    }

    fn end(&mut self) -> Result<(), String> {
        if self.token == Token::Newline || self.is(";") {
            self.advance()?;
            return Ok(());
        }
        if self.is("}") || self.token == Token::End { Ok(()) } else { Err("syntax error".to_owned()) }
    }

    fn condition(&mut self) -> Result<Expr, String> {
        self.expect("(")?;
        let condition = self.expr()?;
        self.expect(")")?;
        Ok(condition)
    }

    fn statement(&mut self) -> Result<Statement, String> {
        self.enter()?;
        let statement = self.any_statement()?;
        self.depth -= 1;
        Ok(statement)
    }

    fn any_statement(&mut self) -> Result<Statement, String> {
        if self.is("{") {
            return self.block();
        }
        if self.skip("if")? {
            let condition = self.condition()?;
            let then = self.body()?;
            // `else` may follow a semicolon and newlines.
            self.skip_ends_before_else()?;
            let otherwise = if self.skip("else")? { Some(self.body()?) } else { None };
            return Ok(Statement::If(condition, then, otherwise));
        }
        if self.skip("while")? {
            let condition = self.condition()?;
            return Ok(Statement::While(condition, self.body()?));
        }
        if self.skip("do")? {
            let body = self.body()?;
            self.skip_ends()?;
            self.expect("while")?;
            let condition = self.condition()?;
            self.end()?;
            return Ok(Statement::Do(body, condition));
        }
        if self.skip("for")? {
            return self.for_loop();
        }
        let statement = self.simple()?;
        self.end()?;
        Ok(statement)
    }

    fn skip_ends_before_else(&mut self) -> Result<(), String> {
        // A newline or semicolon before anything else ends the statement all the same.
        self.skip_ends()
    }

    fn for_loop(&mut self) -> Result<Statement, String> {
        self.expect("(")?;
        if let Token::Name(name) = self.token.clone() {
            self.no_in = true;
            let first = self.simple()?;
            self.no_in = false;
            if let (Statement::Expr(Expr::Variable(own)), true) = (&first, self.is("in"))
                && *own == name
            {
                self.advance()?;
                let array = self.name()?;
                self.expect(")")?;
                return Ok(Statement::ForIn(name, array, self.body()?));
            }
            return self.for_rest(Some(Box::new(first)));
        }
        let first = if self.is(";") { None } else { Some(Box::new(self.simple()?)) };
        self.for_rest(first)
    }

    fn for_rest(&mut self, first: Option<Box<Statement>>) -> Result<Statement, String> {
        self.expect(";")?;
        self.skip_newlines()?;
        let condition = if self.is(";") { None } else { Some(self.expr()?) };
        self.expect(";")?;
        self.skip_newlines()?;
        let step = if self.is(")") { None } else { Some(Box::new(self.simple()?)) };
        self.expect(")")?;
        Ok(Statement::For(first, condition, step, self.body()?))
    }

    fn is_end(&self) -> bool {
        matches!(self.token, Token::Newline | Token::End) || self.is(";") || self.is("}")
    }

    fn simple(&mut self) -> Result<Statement, String> {
        let Token::Mark(mark) = self.token else { return self.expr().map(Statement::Expr) };
        match mark {
            "print" | "printf" => self.print(mark == "printf"),
            "next" | "nextfile" | "break" | "continue" => {
                self.advance()?;
                Ok(match mark {
                    "next" => Statement::Next,
                    "nextfile" => Statement::NextFile,
                    "break" => Statement::Break,
                    _ => Statement::Continue,
                })
            }
            "exit" | "return" => {
                self.advance()?;
                let value = if self.is_end() { None } else { Some(self.expr()?) };
                Ok(if mark == "exit" { Statement::Exit(value) } else { Statement::Return(value) })
            }
            "delete" => {
                self.advance()?;
                let name = self.name()?;
                if !self.skip("[")? {
                    return Ok(Statement::Delete(name, None));
                }
                let index = self.list("]")?;
                Ok(Statement::Delete(name, Some(index)))
            }
            _ => self.expr().map(Statement::Expr),
        }
    }

    fn print(&mut self, formatted: bool) -> Result<Statement, String> {
        self.advance()?;
        let mut arguments = Vec::new();
        self.no_greater = true;
        if !self.is_end() && !self.is(">") && !self.is(">>") && !self.is("|") {
            loop {
                arguments.push(self.expr()?);
                if !self.skip(",")? {
                    break;
                }
                self.skip_newlines()?;
            }
        }
        self.no_greater = false;
        if let [Expr::Group(_)] = arguments.as_slice()
            && let Some(Expr::Group(inside)) = arguments.pop()
        {
            arguments = inside;
        }
        if self.is("|") {
            return Err("pipes to commands are not simulated".to_owned());
        }
        let appends = self.is(">>");
        let target = match self.is(">") || appends {
            true => {
                self.advance()?;
                self.no_greater = true;
                let target = self.concatenation()?;
                self.no_greater = false;
                Some((target, appends))
            }
            false => None,
        };
        Ok(Statement::Print(arguments, formatted, target))
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expr>, String> {
        let (in_before, greater_before) = (self.no_in, self.no_greater);
        (self.no_in, self.no_greater) = (false, false);
        let mut all = Vec::new();
        self.skip_newlines()?;
        while !self.skip(end)? {
            all.push(self.expr()?);
            self.skip_newlines()?;
            if !self.skip(",")? {
                self.expect(end)?;
                break;
            }
            self.skip_newlines()?;
        }
        (self.no_in, self.no_greater) = (in_before, greater_before);
        Ok(all)
    }

    fn expr(&mut self) -> Result<Expr, String> {
        self.enter()?;
        let expr = self.ternary()?;
        let is_place = matches!(expr, Expr::Variable(_) | Expr::Field(_) | Expr::Element(..));
        let operators = ["=", "+=", "-=", "*=", "/=", "%=", "^=", "**="];
        let found = operators.into_iter().find(|operator| self.is(operator)).filter(|_| is_place);
        let expr = match found {
            Some(operator) => {
                self.advance()?;
                self.skip_newlines()?;
                let operator = operator.strip_suffix('=').unwrap_or_default();
                let operator = if operator == "**" { "^" } else { operator };
                Expr::Assign(operator, Box::new(expr), Box::new(self.expr()?))
            }
            None => expr,
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn ternary(&mut self) -> Result<Expr, String> {
        let condition = self.or()?;
        if !self.skip("?")? {
            return Ok(condition);
        }
        self.skip_newlines()?;
        let first = self.expr()?;
        self.skip_newlines()?;
        self.expect(":")?;
        self.skip_newlines()?;
        Ok(Expr::Conditional(Box::new(condition), Box::new(first), Box::new(self.expr()?)))
    }

    fn or(&mut self) -> Result<Expr, String> {
        let mut left = self.and()?;
        while self.skip("||")? {
            self.skip_newlines()?;
            left = Expr::Binary("||", Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, String> {
        let mut left = self.membership()?;
        while self.skip("&&")? {
            self.skip_newlines()?;
            left = Expr::Binary("&&", Box::new(left), Box::new(self.membership()?));
        }
        Ok(left)
    }

    fn membership(&mut self) -> Result<Expr, String> {
        let mut left = self.matching()?;
        while !self.no_in && self.skip("in")? {
            let name = self.name()?;
            let index = match left {
                Expr::Group(all) => all,
                other => vec![other],
            };
            left = Expr::In(index, name);
        }
        Ok(left)
    }

    fn matching(&mut self) -> Result<Expr, String> {
        let mut left = self.comparison()?;
        loop {
            let operator = if self.is("~") { "~" } else { "!~" };
            if !self.skip(operator)? {
                return Ok(left);
            }
            left = Expr::Binary(operator, Box::new(left), Box::new(self.comparison()?));
        }
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        let left = self.concatenation()?;
        let operators = ["<=", ">=", "==", "!=", "<", ">"];
        let found = operators
            .into_iter()
            .find(|operator| self.is(operator) && !(*operator == ">" && self.no_greater));
        match found {
            Some(operator) => {
                self.advance()?;
                Ok(Expr::Binary(operator, Box::new(left), Box::new(self.concatenation()?)))
            }
            None if self.is("|") && !self.no_greater => {
                Err("pipes from commands are not simulated".to_owned())
            }
            None => Ok(left),
        }
    }

    fn begins_operand(&self) -> bool {
        match &self.token {
            Token::Number(_) | Token::Text(_) | Token::Name(_) | Token::Function(_) => true,
            Token::Mark(mark) => matches!(*mark, "$" | "!" | "(" | "-" | "+" | "++" | "--"),
            Token::Newline | Token::End => false,
        }
    }

    fn concatenation(&mut self) -> Result<Expr, String> {
        let mut left = self.sum()?;
        while self.begins_operand() && !(self.is("+") || self.is("-")) {
            left = Expr::Binary(" ", Box::new(left), Box::new(self.sum()?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        loop {
            let operator = if self.is("+") { "+" } else { "-" };
            if !self.skip(operator)? {
                return Ok(left);
            }
            left = Expr::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.unary()?;
        while let Some(operator) = ["*", "/", "%"].into_iter().find(|operator| self.is(operator)) {
            self.advance()?;
            left = Expr::Binary(operator, Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        self.enter()?;
        let found = ["!", "-", "+"].into_iter().find(|operator| self.is(operator));
        let expr = match found {
            Some(operator) => {
                self.advance()?;
                Expr::Unary(operator, Box::new(self.unary()?))
            }
            None => self.power()?,
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn power(&mut self) -> Result<Expr, String> {
        let base = self.postfix()?;
        if self.skip("^")? || self.skip("**")? {
            // The exponent may have a sign, and powers of powers are on the right.
            return Ok(Expr::Binary("^", Box::new(base), Box::new(self.unary()?)));
        }
        Ok(base)
    }

    fn postfix(&mut self) -> Result<Expr, String> {
        let operand = self.operand()?;
        let is_place = matches!(operand, Expr::Variable(_) | Expr::Field(_) | Expr::Element(..));
        if is_place && self.skip("++")? {
            return Ok(Expr::Step(Box::new(operand), 1.0, true));
        }
        if is_place && self.skip("--")? {
            return Ok(Expr::Step(Box::new(operand), -1.0, true));
        }
        Ok(operand)
    }

    fn operand(&mut self) -> Result<Expr, String> {
        self.enter()?;
        let expr = self.any_operand()?;
        self.depth -= 1;
        Ok(expr)
    }

    fn any_operand(&mut self) -> Result<Expr, String> {
        if self.is("/") || self.is("/=") {
            let equals = self.is("/=");
            let text = self.lexer.regex()?;
            self.advance()?;
            let text = if equals { format!("={text}") } else { text };
            return Ok(Expr::Regex(Box::new(Regex::extended(&text, false)?)));
        }
        match self.advance()? {
            Token::Number(number) => Ok(Expr::Number(number)),
            Token::Text(text) => Ok(Expr::Text(text)),
            Token::Name(name) => match self.skip("[")? {
                true => Ok(Expr::Element(name, self.list("]")?)),
                false if name == "length" => Ok(Expr::Call(name, Vec::new())),
                false => Ok(Expr::Variable(name)),
            },
            Token::Function(name) => {
                self.expect("(")?;
                let arguments = self.list(")")?;
                if name == "system" {
                    return Err("system() is not simulated".to_owned());
                }
                if !FUNCTIONS.contains(&name.as_str()) {
                    self.called.push(name.clone());
                }
                Ok(Expr::Call(name, arguments))
            }
            Token::Mark("$") => {
                let step = if self.skip("++")? {
                    1.0
                } else if self.skip("--")? {
                    -1.0
                } else {
                    0.0
                };
                let inner = self.operand()?;
                let inner = if step == 0.0 { inner } else { Expr::Step(Box::new(inner), step, false) };
                Ok(Expr::Field(Box::new(inner)))
            }
            Token::Mark(mark @ ("++" | "--")) => {
                let place = self.operand()?;
                if !matches!(place, Expr::Variable(_) | Expr::Field(_) | Expr::Element(..)) {
                    return Err("syntax error".to_owned());
                }
                Ok(Expr::Step(Box::new(place), if mark == "++" { 1.0 } else { -1.0 }, false))
            }
            Token::Mark("(") => Ok(Expr::Group(self.list(")")?)),
            Token::Mark("-") => Ok(Expr::Unary("-", Box::new(self.operand()?))),
            Token::Mark("!") => Ok(Expr::Unary("!", Box::new(self.operand()?))),
            Token::Mark("getline") => {
                let place = match &self.token {
                    Token::Name(_) => Some(Box::new(self.operand()?)),
                    Token::Mark("$") => Some(Box::new(self.operand()?)),
                    _ => None,
                };
                let file = if self.skip("<")? { Some(Box::new(self.postfix()?)) } else { None };
                Ok(Expr::Getline(place, file))
            }
            _ => Err("syntax error".to_owned()),
        }
    }
}

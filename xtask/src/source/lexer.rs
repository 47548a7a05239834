//! Splits Rust source into tokens. Knows strings, raw strings, characters, lifetimes and nested comments.

/// The class of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Lifetime,
    /// Any string literal: plain, raw, byte or C.
    Str,
    Char,
    Number,
    /// `//` or `/* */`
    Comment,
    /// `///`, `//!`, `/** */` or `/*! */`
    DocComment,
    /// One character, or one of `::`, `=>`, `->`
    Punct,
}

/// A token by its byte range and the line that it starts on, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) line: usize,
}

/// The tokens of a file, comments apart from code.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    pub(crate) code: Vec<Token>,
    pub(crate) comments: Vec<Token>,
}

impl Tokens {
    pub(crate) fn new(text: &str) -> Self {
        let mut lexer = Lexer { bytes: text.as_bytes(), at: 0, line: 1, tokens: Self::default() };
        lexer.run();
        lexer.tokens
    }
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
    tokens: Tokens,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while let Some(byte) = self.peek(0) {
            let (start, line) = (self.at, self.line);
            let kind = match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {
                    self.advance();
                    continue;
                }
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'\'' => self.quote(),
                b'0'..=b'9' => self.number(),
                _ if is_ident(byte) => self.word(),
                _ => self.punct(),
            };
            let token = Token { kind, start, end: self.at, line };
            if matches!(kind, Kind::Comment | Kind::DocComment) {
                self.tokens.comments.push(token);
            } else {
                self.tokens.code.push(token);
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn advance(&mut self) {
        if self.peek(0) == Some(b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn line_comment(&mut self) -> Kind {
        let is_doc = matches!(self.peek(2), Some(b'!')) || (self.peek(2) == Some(b'/') && self.peek(3) != Some(b'/'));
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
        if is_doc { Kind::DocComment } else { Kind::Comment }
    }

    fn block_comment(&mut self) -> Kind {
        let is_doc = matches!(self.peek(2), Some(b'!'))
            || (self.peek(2) == Some(b'*') && !matches!(self.peek(3), Some(b'*' | b'/')));
        let mut depth = 0_usize;
        while self.peek(0).is_some() {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        break;
                    }
                }
                _ => self.advance(),
            }
        }
        if is_doc { Kind::DocComment } else { Kind::Comment }
    }

    fn string(&mut self) -> Kind {
        self.advance();
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' {
                self.advance();
            }
            self.advance();
            if byte == b'"' {
                break;
            }
        }
        Kind::Str
    }

    /// The rest of a raw string, from its hashes on.
    fn raw_string(&mut self) -> Kind {
        let mut hashes = 0;
        while self.peek(0) == Some(b'#') {
            hashes += 1;
            self.at += 1;
        }
        self.advance();
        while let Some(byte) = self.peek(0) {
            self.advance();
            if byte == b'"' && (0..hashes).all(|ahead| self.peek(ahead) == Some(b'#')) {
                self.at += hashes;
                break;
            }
        }
        Kind::Str
    }

    /// A character or a lifetime.
    fn quote(&mut self) -> Kind {
        let is_lifetime = self.peek(1).is_some_and(|byte| is_ident(byte) && byte < 128) && self.peek(2) != Some(b'\'');
        self.at += 1;
        if is_lifetime {
            while self.peek(0).is_some_and(is_ident) {
                self.at += 1;
            }
            return Kind::Lifetime;
        }
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' {
                self.advance();
            }
            self.advance();
            if byte == b'\'' {
                break;
            }
        }
        Kind::Char
    }

    fn number(&mut self) -> Kind {
        while self.peek(0).is_some_and(|byte| is_ident(byte) || (byte == b'.' && self.is_fraction())) {
            self.at += 1;
        }
        Kind::Number
    }

    fn is_fraction(&self) -> bool {
        self.peek(1).is_some_and(|byte| byte.is_ascii_digit())
    }

    /// An identifier, or a literal that starts with letters: `r"..."`, `b'x'`, `br#"..."#`, `r#name`.
    fn word(&mut self) -> Kind {
        let start = self.at;
        while self.peek(0).is_some_and(is_ident) {
            self.at += 1;
        }
        let prefix = &self.bytes[start..self.at];
        match (prefix, self.peek(0), self.peek(1)) {
            (b"r" | b"br" | b"cr", Some(b'"'), _) | (b"r" | b"br" | b"cr", Some(b'#'), Some(b'"' | b'#')) => {
                self.raw_string()
            }
            (b"b" | b"c", Some(b'"'), _) => self.string(),
            (b"b", Some(b'\''), _) => {
                self.at += 1;
                while let Some(byte) = self.peek(0) {
                    self.at += if byte == b'\\' { 2 } else { 1 };
                    if byte == b'\'' {
                        break;
                    }
                }
                Kind::Char
            }
            (b"r", Some(b'#'), Some(next)) if is_ident(next) => {
                self.at += 1;
                while self.peek(0).is_some_and(is_ident) {
                    self.at += 1;
                }
                Kind::Ident
            }
            _ => Kind::Ident,
        }
    }

    fn punct(&mut self) -> Kind {
        let pair = (self.peek(0), self.peek(1));
        let is_pair = matches!(pair, (Some(b':'), Some(b':')) | (Some(b'=' | b'-'), Some(b'>')));
        self.at += if is_pair { 2 } else { 1 };
        Kind::Punct
    }
}

/// Whether a byte can be part of an identifier. Bytes of other scripts count as letters.
fn is_ident(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str)> {
        Tokens::new(text).code.iter().map(|token| (token.kind, &text[token.start..token.end])).collect()
    }

    #[test]
    fn identifiers_inside_literals_are_not_tokens() {
        let text = r###"let a = "Status \" Status"; let b = r#"Status " "#; let c = b"Status"; 'S'; '\''; b'\''"###;
        let names: Vec<&str> =
            kinds(text).iter().filter(|(kind, _)| *kind == Kind::Ident).map(|(_, text)| *text).collect();
        assert_eq!(names, ["let", "a", "let", "b", "let", "c"]);
    }

    #[test]
    fn lifetimes_and_characters_differ() {
        let found = kinds("&'a str 'x' '\\n' '_ 'static");
        let found: Vec<Kind> = found.into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(
            found,
            [Kind::Punct, Kind::Lifetime, Kind::Ident, Kind::Char, Kind::Char, Kind::Lifetime, Kind::Lifetime]
        );
    }

    #[test]
    fn comments_are_apart_and_doc_comments_are_known() {
        let tokens = Tokens::new("/// a\n//! b\n// c\n//// d\n/* /* nested */ e */ fn f() {}\n/** g */");
        let docs: Vec<bool> = tokens.comments.iter().map(|token| token.kind == Kind::DocComment).collect();
        assert_eq!(docs, [true, true, false, false, false, true]);
        assert_eq!(tokens.code.len(), 6);
        assert_eq!(tokens.code[0].line, 5);
    }

    #[test]
    fn ranges_and_floats_are_split_where_rust_splits_them() {
        let words = |text| kinds(text).into_iter().map(|(_, word)| word).collect::<Vec<_>>();
        assert_eq!(words("0..10"), ["0", ".", ".", "10"]);
        assert_eq!(words("1.5e3"), ["1.5e3"]);
        assert_eq!(words("a::b=>c->r#type"), ["a", "::", "b", "=>", "c", "->", "r#type"]);
    }
}

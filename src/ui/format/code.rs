//! Simple syntax highlighting: comments, strings, numbers and common keywords, by one small lexer for all languages. An error of the
//! lexer only leads to a wrong colour.

use crate::ui::format::style::Role;
use crate::ui::format::wrap::Span;

/// The lexical syntax of a family of languages.
struct Syntax {
    languages: &'static str,
    comment: &'static str,
    /// The delimiters of comments and strings that may span several lines.
    blocks: &'static [(&'static str, &'static str, Role)],
    quotes: &'static str,
}

const COMMENT: (&str, &str, Role) = ("/*", "*/", Role::Muted);

#[rustfmt::skip]
const FAMILIES: &[Syntax] = &[
    Syntax { languages: "rust rs", comment: "//", blocks: &[COMMENT], quotes: "\"" },
    Syntax { languages: "javascript js jsx typescript ts tsx go", comment: "//", blocks: &[COMMENT, ("`", "`", Role::Ok)], quotes: "\"'" },
    Syntax {
        languages: "c h cpp c++ cc hpp java kotlin kt swift scala cs csharp php dart css scss zig proto json jsonc json5",
        comment: "//", blocks: &[COMMENT], quotes: "\"'",
    },
    Syntax {
        languages: "python py",
        comment: "#", blocks: &[("\"\"\"", "\"\"\"", Role::Ok), ("'''", "'''", Role::Ok)], quotes: "\"'",
    },
    Syntax {
        languages: "sh bash zsh shell fish ruby rb perl yaml yml toml ini make makefile dockerfile docker r elixir nix",
        comment: "#", blocks: &[], quotes: "\"'",
    },
    Syntax { languages: "sql lua haskell hs", comment: "--", blocks: &[COMMENT], quotes: "\"'" },
    Syntax { languages: "html xml svg vue", comment: "<!--", blocks: &[("<!--", "-->", Role::Muted)], quotes: "\"" },
    Syntax { languages: "lisp clojure scheme el", comment: ";", blocks: &[], quotes: "\"" },
];

const KEYWORDS: &str = "abstract and as async await break case catch class const continue def default do done elif else end enum esac \
    export extends extern false fi finally fn for from func function if impl import in interface is lambda let loop match mod mut new \
    nil none None not null or package pass private protected pub public raise return select self static struct super switch then this \
    throw trait true True False try type typeof union unsafe use var void where while with yield SELECT FROM WHERE INSERT UPDATE \
    DELETE JOIN CREATE TABLE";

fn is_among(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

/// Highlights code line by line; holds the state between two lines.
pub struct Highlighter {
    syntax: Option<&'static Syntax>,
    is_diff: bool,
    /// The end delimiter and the role of the comment or string that the next line begins in.
    inside: Option<(&'static str, Role)>,
}

impl Highlighter {
    /// `language` is the word after the fence of a code block.
    pub fn new(language: &str) -> Highlighter {
        let language = language.to_lowercase();
        let syntax = FAMILIES.iter().find(|family| is_among(family.languages, &language));
        Highlighter { syntax, is_diff: language == "diff" || language == "patch", inside: None }
    }

    pub fn line(&mut self, line: &str) -> Vec<Span> {
        let role = match line.as_bytes().first() {
            Some(b'+') if self.is_diff => Role::Add,
            Some(b'-') if self.is_diff => Role::Del,
            Some(b'@') if self.is_diff => Role::Muted,
            _ => Role::Text,
        };
        let Some(syntax) = self.syntax else {
            return vec![Span::new(role, line)];
        };
        let mut spans: Vec<Span> = Vec::new();
        let mut rest = line;
        let mut before = ' ';
        while !rest.is_empty() {
            let (length, role) = self.token(syntax, rest, before);
            let (token, behind) = rest.split_at(length);
            match spans.last_mut() {
                Some(last) if last.role == role => last.text.push_str(&Span::new(role, token).text),
                _ => spans.push(Span::new(role, token)),
            }
            before = token.chars().next_back().unwrap_or(' ');
            rest = behind;
        }
        spans
    }

    /// The length and the role of the next token.
    fn token(&mut self, syntax: &Syntax, rest: &str, before: char) -> (usize, Role) {
        if let Some((end, role)) = self.inside {
            return match rest.find(end) {
                Some(at) => {
                    self.inside = None;
                    (at + end.len(), role)
                }
                None => (rest.len(), role),
            };
        }
        for (begin, end, role) in syntax.blocks {
            if let Some(content) = rest.strip_prefix(begin) {
                return match content.find(end) {
                    Some(at) => (begin.len() + at + end.len(), *role),
                    None => {
                        self.inside = Some((end, *role));
                        (rest.len(), *role)
                    }
                };
            }
        }
        if rest.starts_with(syntax.comment) && (syntax.comment != "#" || before.is_whitespace()) {
            return (rest.len(), Role::Muted);
        }
        let first = rest.chars().next().unwrap_or(' ');
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        match first {
            quote if syntax.quotes.contains(quote) => (string(rest, quote), Role::Ok),
            c if c.is_ascii_digit() && !is_word(before) => (word, Role::Warn),
            c if is_word(c) && !is_word(before) && is_among(KEYWORDS, &rest[..word]) => (word, Role::Accent),
            c if is_word(c) => (word, Role::Text),
            c => (c.len_utf8(), Role::Text),
        }
    }
}

/// The length of the string literal at the start of the text; up to the end of the line if it is not closed.
fn string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens that are not plain text, as `role:text`.
    fn coloured(language: &str, code: &str) -> Vec<String> {
        let mut highlighter = Highlighter::new(language);
        let spans: Vec<Span> = code.lines().flat_map(|line| highlighter.line(line)).collect();
        let plain: String = spans.iter().map(|span| span.text.as_str()).collect();
        assert_eq!(plain, code.replace('\n', ""), "nothing is lost");
        let word = |span: &Span| format!("{:?}:{}", span.role, span.text);
        spans.iter().filter(|span| span.role != Role::Text).map(word).collect()
    }

    #[test]
    fn tokens_of_several_languages() {
        assert_eq!(
            coloured("rust", "let x = 'a'; // \"c\"\nfn f<'a>() -> &'a str { \"it\\\"s\" }"),
            ["Accent:let", "Muted:// \"c\"", "Accent:fn", "Ok:\"it\\\"s\""]
        );
        assert_eq!(
            coloured("py", "def f(x1): # no\n  \"\"\"a\n b\"\"\" + 12"),
            ["Accent:def", "Muted:# no", "Ok:\"\"\"a", "Ok: b\"\"\"", "Warn:12"]
        );
        assert_eq!(
            coloured("JS", "/* a\nb */ return `x\ny` + 'z'"),
            ["Muted:/* a", "Muted:b */", "Accent:return", "Ok:`x", "Ok:y`", "Ok:'z'"]
        );
        assert_eq!(coloured("sh", "echo $#  # say"), ["Muted:# say"]);
        assert_eq!(coloured("diff", "@@ -1 +1 @@\n-a\n+b\n c"), ["Muted:@@ -1 +1 @@", "Del:-a", "Add:+b"]);
        assert_eq!(coloured("text", "let x = 1"), [""; 0]);
        assert_eq!(coloured("c", "\"no end"), ["Ok:\"no end"]);
    }
}

//! Converts HTML pages to text.
//!
//! It does not build a tree: tags are skipped, some of them end the line, and the content of a few is left out. It reads any text in one
//! pass and never fails. The texts of links are kept, their targets are not.

use regex_lite::{Captures, Regex};
use std::sync::LazyLock;

/// The readable text of a page.
pub fn text_of(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.words(&rest[..at]);
        rest = page.markup(&rest[at..]);
    }
    page.words(rest);
    page.text.truncate(page.text.trim_end().len());
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    /// Number of open `pre` elements, in which space is kept.
    preformatted: usize,
    /// Space was read and not written yet, because it may be at the end of a line.
    space: bool,
}

impl Page {
    fn words(&mut self, raw: &str) {
        static ENTITY: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"&(?:#([0-9]+)|#[xX]([0-9a-fA-F]+)|([a-z]+));").expect("the expression is valid")
        });
        for c in ENTITY.replace_all(raw, entity).chars() {
            if self.preformatted > 0 && c != '\r' {
                self.text.push(c);
            } else if c.is_whitespace() {
                self.space = true;
            } else {
                if self.space && !self.text.is_empty() && !self.text.ends_with(['\n', ' ']) {
                    self.text.push(' ');
                }
                self.space = false;
                self.text.push(c);
            }
        }
    }

    /// Ends the line and adds this many empty lines.
    fn end_line(&mut self, empty: usize) {
        self.space = false;
        if self.text.is_empty() {
            return;
        }
        let line_breaks = self.text.len() - self.text.trim_end_matches('\n').len();
        for _ in line_breaks..=empty {
            self.text.push('\n');
        }
    }

    /// Reads one tag or comment, and returns the text after it.
    fn markup<'a>(&mut self, html: &'a str) -> &'a str {
        if let Some(comment) = html.strip_prefix("<!--") {
            return comment.split_once("-->").map_or("", |(_, rest)| rest);
        }
        let inner = &html[1..];
        let (closes, inner) = match inner.strip_prefix('/') {
            Some(inner) => (true, inner),
            None => (false, inner),
        };
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?')) {
            self.words("<");
            return &html[1..];
        }
        let end = inner.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/')).unwrap_or(inner.len());
        let name = inner[..end].to_ascii_lowercase();
        let rest = after_tag(&inner[end..]);
        match (name.as_str(), closes) {
            ("script" | "style" | "noscript" | "template" | "svg" | "iframe", false) => {
                return after_closing_tag(rest, &name);
            }
            ("pre", false) => {
                self.end_line(1);
                self.preformatted += 1;
            }
            ("pre", true) => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.end_line(1);
            }
            ("br", _) => self.text.push('\n'),
            ("li", false) => {
                self.end_line(0);
                self.text.push_str("* ");
            }
            ("td" | "th", true) => self.space = true,
            (
                "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "table" | "ul" | "ol" | "dl" | "blockquote" | "section"
                | "article" | "title" | "hr",
                _,
            ) => self.end_line(1),
            (
                "div" | "tr" | "li" | "dt" | "dd" | "header" | "footer" | "nav" | "main" | "aside" | "form" | "figure"
                | "figcaption" | "option" | "body" | "head",
                _,
            ) => self.end_line(0),
            _ => {}
        }
        rest
    }
}

/// The text after the `>` that ends a tag; one in quotes does not end it.
fn after_tag(text: &str) -> &str {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return &text[at + 1..],
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None | Some(_), _) => {}
        }
    }
    ""
}

/// The text after the tag that closes the element.
fn after_closing_tag<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        let closes = rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if closes {
            return after_tag(&rest[name.len()..]);
        }
    }
    ""
}

/// The character of an entity; an unknown entity stays as it is.
fn entity(found: &Captures) -> String {
    /// Names, each followed by its character.
    const NAMED: &str = "amp& lt< gt> quot\" apos' copy© reg® trade™ mdash— ndash– hellip… lsquo‘ rsquo’ ldquo“ rdquo” laquo« \
        raquo» bull• middot· times× deg° euro€ pound£ sect§ rarr→";
    let number = |group, radix| u32::from_str_radix(found.get(group)?.as_str(), radix).ok();
    let numbered = number(1, 10).or_else(|| number(2, 16)).and_then(char::from_u32).filter(|c| *c != '\0');
    let c = numbered.or_else(|| match found.get(3)?.as_str() {
        "nbsp" => Some(' '),
        name => {
            let mut characters = NAMED.split(' ').filter_map(|pair| pair.strip_prefix(name));
            characters.find(|rest| rest.chars().count() == 1)?.chars().next()
        }
    });
    c.map_or_else(|| found[0].to_owned(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_random::Random;

    #[test]
    fn a_page_becomes_its_visible_text() {
        let html = "<!DOCTYPE html>\n<html><head><title>A &amp; B</title><style>p { color: red }</style>\
            <script>if (a < b) { document.write('<p>no</p>') }</script></head>\n<body>\n<!-- <p>hidden</p> -->\
            <h1>Head\n  line</h1><p>One <b>two</b>,   three.<br>Four &lt;five&gt; &#8212; &#x263A; &unknown; &</p>\
            <ul><li><a href=\"x>y\">Link</a></li><li>Two</li></ul>\
            <table><tr><td>1</td><td>2</td></tr></table>\
            <pre>  keep\n    this </pre>1 < 2 <3\n</body></html>";
        assert_eq!(
            text_of(html),
            "A & B\n\nHead line\n\nOne two, three.\nFour <five> — ☺ &unknown; &\n\n* Link\n* Two\n\n1 2\n\n  keep\n    this \n\n1 < 2 <3"
        );
    }

    #[test]
    fn malformed_html_is_read_to_its_end() {
        for (html, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("a<", "a<"),
            ("a<b", "a"),
            ("a<!-- never closed", "a"),
            ("a<script>never closed", "a"),
            ("a<SCRIPT>x</ScRiPt >b", "ab"),
            ("a<p title='>'>b", "a\n\nb"),
            ("</pre>a  b", "a b"),
            ("&#0;&#xD800;&#99999999999;", "&#0;&#xD800;&#99999999999;"),
            ("&amp", "&amp"),
            ("ü&ö;ä", "ü&ö;ä"),
            ("a</ b>", "a</ b>"),
        ] {
            assert_eq!(text_of(html), expected, "{html}");
        }
        let pieces = ["<", ">", "/", "!--", "-->", "pre", "script", "&", "#x", ";", "ü", "'", " "];
        let mut random = Random::new(3);
        for _ in 0..20_000 {
            let mut html = String::new();
            for _ in 0..10 {
                html.push_str(random.one_of(&pieces));
            }
            text_of(&html);
        }
    }
}

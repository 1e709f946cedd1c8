//! Lines of text with roles, and breaking them at words. A line is either wrapped by the terminal, which joins it again when it is
//! copied or the terminal becomes wider, or it is a row of a paragraph that was broken here.
//!
//! Breaking is greedy and looks only backwards: a row does not change when words are added after it. The streaming of paragraphs
//! depends on that.

use crate::ui::format::style::Role;
use crate::ui::format::text::{Reading, clusters, plain, width};

/// A piece of text with one role. All its characters are visible, and it has no line feeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub role: Role,
    pub text: String,
}

impl Span {
    pub fn new(role: Role, text: &str) -> Span {
        Span { role, text: plain(text, Reading::Literal).replace('\n', "␊") }
    }

    pub fn prose(role: Role, text: &str) -> Span {
        Span { role, text: plain(text, Reading::Prose).replace('\n', " ") }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wrap {
    /// The terminal wraps the line if it is too long.
    #[default]
    Soft,
    /// The first row of a paragraph, whose other rows are indented by this number of columns.
    First(usize),
    /// Another row of the paragraph.
    Next(usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub spans: Vec<Span>,
    pub wrap: Wrap,
}

impl Line {
    /// A line with one span.
    pub fn new(role: Role, text: &str) -> Line {
        Line::default().add(role, text)
    }

    pub fn add(mut self, role: Role, text: &str) -> Line {
        self.push(Span::new(role, text));
        self
    }

    pub fn text(self, text: &str) -> Line {
        self.add(Role::Text, text)
    }

    /// Appends a span; joins it with the last one if that has the same role.
    pub fn push(&mut self, span: Span) {
        match self.spans.last_mut() {
            _ if span.text.is_empty() => {}
            Some(last) if last.role == span.role => last.text.push_str(&span.text),
            _ => self.spans.push(span),
        }
    }

    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// Approximately the number of bytes that are sent to the terminal for the line.
    pub fn bytes(&self) -> usize {
        self.spans.iter().map(|span| span.text.len() + 8).sum()
    }

    /// The text without roles.
    pub fn content(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// The line with at most `most` columns; an ellipsis replaces what is cut.
    pub fn clipped(self, max_width: usize) -> Line {
        if self.width() <= max_width {
            return self;
        }
        let mut line = Line { spans: Vec::new(), wrap: self.wrap };
        let mut remaining = max_width.saturating_sub(1);
        'all: for span in &self.spans {
            for cluster in clusters(&span.text) {
                if cluster.width > remaining {
                    break 'all;
                }
                remaining -= cluster.width;
                line.push(Span { role: span.role, text: cluster.text.into() });
            }
        }
        if max_width > 0 {
            line.push(Span { role: Role::Muted, text: "…".into() });
        }
        line
    }
}

/// The end of a text, with an ellipsis before it if the start is missing.
pub fn newest(text: &str, max_width: usize) -> String {
    if width(text) <= max_width {
        return text.to_owned();
    }
    let all: Vec<_> = clusters(text).collect();
    let (mut from, mut remaining) = (all.len(), max_width.saturating_sub(1));
    while from > 0 && all[from - 1].width <= remaining {
        from -= 1;
        remaining -= all[from].width;
    }
    let tail: String = all[from..].iter().map(|cluster| cluster.text).collect();
    // A word whose start is missing is left out if another word follows soon.
    let word = tail.find(' ').filter(|at| 2 * at < tail.len() && !tail.starts_with(' ')).unwrap_or(0);
    format!("…{}", tail[word..].trim_start())
}

/// A word, which is not broken, with the blank before it if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub spans: Vec<Span>,
    pub width: usize,
    /// The role of the blank before the word, if there is one.
    pub blank: Option<Role>,
    /// The index of the span that the word begins in, and the position in that span.
    pub from: (usize, usize),
}

impl Word {
    /// Whether the word is a single wide character; text may be broken before and after it.
    pub fn is_wide(&self) -> bool {
        self.spans.first().and_then(|span| clusters(&span.text).next()).is_some_and(|cluster| cluster.width > 1)
    }
}

/// Splits text at blanks, around wide characters, and where a word is wider than `max_width`.
pub fn words(spans: &[Span], max_width: usize) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let (mut blank, mut open) = (None, false);
    for (number, span) in spans.iter().enumerate() {
        let mut at = 0;
        for cluster in clusters(&span.text) {
            let from = (number, at);
            at += cluster.text.len();
            if cluster.text == " " {
                (blank, open) = (Some(span.role), false);
                continue;
            }
            let fits = words.last().is_some_and(|word| word.width + cluster.width <= max_width);
            if !open || cluster.width > 1 || !fits {
                words.push(Word { blank: blank.take(), from, ..Word::default() });
            }
            open = cluster.width <= 1;
            let word = words.last_mut().expect("one was just made");
            // The character is wider than a row.
            let (text, width) = if cluster.width > max_width { ("?", 1) } else { (cluster.text, cluster.width) };
            word.width += width;
            match word.spans.last_mut() {
                Some(last) if last.role == span.role => last.text.push_str(text),
                _ => word.spans.push(Span { role: span.role, text: text.into() }),
            }
        }
    }
    words
}

/// The index of the first word of each row.
pub fn breaks(words: &[Word], max_width: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut column = 0;
    for (at, word) in words.iter().enumerate() {
        let blank = usize::from(word.blank.is_some());
        if at == 0 || column + blank + word.width > max_width {
            starts.push(at);
            column = word.width;
        } else {
            column += blank + word.width;
        }
    }
    starts
}

/// A row: the indentation and the words.
pub fn row(indent: &Span, words: &[Word], wrap: Wrap) -> Line {
    let mut line = Line { spans: Vec::new(), wrap };
    line.push(indent.clone());
    for (at, word) in words.iter().enumerate() {
        if let Some(role) = word.blank.filter(|_| at > 0) {
            line.push(Span { role, text: " ".into() });
        }
        word.spans.iter().for_each(|span| line.push(span.clone()));
    }
    line
}

/// A paragraph as rows: the first begins with `first`, the others with `next`.
pub fn paragraph(first: &Span, next: &Span, spans: &[Span], max_width: usize) -> Vec<Line> {
    let hang = width(&next.text);
    let max_width = max_width.saturating_sub(hang).max(1);
    let words = words(spans, max_width);
    let starts = breaks(&words, max_width);
    let mut rows = Vec::new();
    for (at, start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(words.len());
        let (indent, wrap) = if at == 0 { (first, Wrap::First(hang)) } else { (next, Wrap::Next(hang)) };
        rows.push(row(indent, &words[*start..end], wrap));
    }
    if rows.is_empty() {
        rows.push(row(first, &[], Wrap::First(hang)));
    }
    rows
}

/// The lines for another width: the rows of each paragraph are joined and broken again.
pub fn rewrap(lines: &[Line], max_width: usize) -> Vec<Line> {
    let mut out = Vec::new();
    let mut rest = lines;
    while let Some((first, behind)) = rest.split_first() {
        let Wrap::First(hang) = first.wrap else {
            out.push(first.clone());
            rest = behind;
            continue;
        };
        let more = behind.iter().take_while(|line| matches!(line.wrap, Wrap::Next(_))).count();
        let (head, mut spans) = split_at_column(first, hang);
        for line in &behind[..more] {
            spans.push(Span { role: Role::Text, text: " ".into() });
            spans.extend(split_at_column(line, hang).1);
        }
        let next =
            if head.text.starts_with('│') { head.clone() } else { Span { role: Role::Text, text: " ".repeat(hang) } };
        out.extend(paragraph(&head, &next, &spans, max_width));
        rest = &behind[more..];
    }
    out
}

/// Splits a line: the first columns as one span, and the rest.
fn split_at_column(line: &Line, columns: usize) -> (Span, Vec<Span>) {
    let mut head = Span { role: Role::Text, text: String::new() };
    let (mut rest, mut remaining) = (Line::default(), columns);
    for span in &line.spans {
        for cluster in clusters(&span.text) {
            if remaining > 0 {
                head.role = if head.text.is_empty() { span.role } else { head.role };
                head.text.push_str(cluster.text);
                remaining = remaining.saturating_sub(cluster.width);
            } else {
                rest.push(Span { role: span.role, text: cluster.text.into() });
            }
        }
    }
    (head, rest.spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str, max_width: usize) -> Vec<String> {
        let none = Span::new(Role::Text, "");
        paragraph(&none, &none, &[Span::prose(Role::Text, text)], max_width).iter().map(Line::content).collect()
    }

    #[test]
    fn rows_are_broken_at_blanks_and_never_inside_a_cluster() {
        for (text, max_width, expected) in [
            ("the quick brown fox", 9, vec!["the quick", "brown fox"]),
            ("the quick  brown", 10, vec!["the quick", "brown"]),
            ("abcdefghij kl", 4, vec!["abcd", "efgh", "ij", "kl"]),
            ("a abcdefgh", 4, vec!["a", "abcd", "efgh"]),
            ("日本語だ", 5, vec!["日本", "語だ"]),
            ("ab日本", 3, vec!["ab", "日", "本"]),
            ("x 👩\u{200d}💻 y", 3, vec!["x", "👩\u{200d}💻", "y"]),
            ("日", 1, vec!["?"]),
            ("", 5, vec![""]),
            ("  lead", 9, vec!["lead"]),
        ] {
            assert_eq!(set(text, max_width), expected, "{text:?}");
        }
    }

    /// Streaming prints a row as soon as a word stands in the next one.
    #[test]
    fn rows_but_the_last_are_the_same_for_every_longer_text() {
        let text = "one two three 日本語 four-five sixseveneight nine ten e\u{301}leven 👍🏽 twelve";
        for max_width in [3, 7, 12, 40] {
            let whole = set(text, max_width);
            for (end, _) in text.char_indices().filter(|(_, c)| *c == ' ') {
                let part = set(&text[..end], max_width);
                assert_eq!(part[..part.len() - 1], whole[..part.len() - 1], "{:?} at {max_width}", &text[..end]);
            }
        }
    }

    #[test]
    fn broken_rows_have_roles_and_indents() {
        let spans = [Span::new(Role::Strong, "bold text"), Span::new(Role::Text, " and more")];
        let (first, next) = (Span::new(Role::Muted, "- "), Span::new(Role::Text, "  "));
        let rows = paragraph(&first, &next, &spans, 11);
        assert_eq!(rows.iter().map(Line::content).collect::<Vec<_>>(), ["- bold text", "  and more"]);
        assert_eq!(rows[0].spans[1], Span::new(Role::Strong, "bold text"));
        assert_eq!([rows[0].wrap, rows[1].wrap], [Wrap::First(2), Wrap::Next(2)]);
        let wide = rewrap(&rows, 40);
        assert_eq!(wide.iter().map(Line::content).collect::<Vec<_>>(), ["- bold text and more"]);
        assert_eq!(rewrap(&wide, 11), rows, "and back again");
        let soft = [Line::new(Role::Text, "a long line of code")];
        assert_eq!(rewrap(&soft, 4), soft);
    }

    #[test]
    fn lines_are_clipped_with_an_ellipsis() {
        let line = Line::new(Role::Ok, "✓ ").text("日本語");
        let clipped = |max_width| line.clone().clipped(max_width).content();
        assert_eq!((clipped(8), clipped(7)), ("✓ 日本語".into(), "✓ 日本…".into()));
        assert_eq!((clipped(6), clipped(1), clipped(0)), ("✓ 日…".into(), "…".into(), "".into()));
        assert_eq!(
            (newest("so it begins again", 10), newest("so it goes on", 10)),
            ("…again".into(), "…goes on".into())
        );
        assert_eq!((newest("short", 10), newest("日本", 3)), ("short".into(), "…本".into()));
    }
}

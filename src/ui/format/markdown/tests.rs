//! Tests of formatting markdown, in one piece and in many.

use super::*;
use crate::base::test_random::Random;

/// A line with its roles: `[Strong:text]`.
fn shown(line: &Line) -> String {
    let span = |span: &Span| match span.role {
        Role::Text => span.text.clone(),
        role => format!("[{role:?}:{}]", span.text),
    };
    line.spans.iter().map(span).collect()
}

fn whole(text: &str, max_width: usize) -> Vec<Line> {
    let mut markdown = Markdown::default();
    let mut lines = markdown.push(text, max_width);
    lines.extend(markdown.finish(max_width));
    lines
}

fn rows(text: &str, max_width: usize) -> Vec<String> {
    whole(text, max_width).iter().map(shown).collect()
}

#[test]
fn paragraphs_and_marks() {
    for (text, expected) in [
        ("one\ntwo", &["one two"][..]),
        ("one\n\n\ntwo\n", &["one", "", "two"]),
        ("**bold** and *it* _it_ ~~no~~", &["[Strong:bold] and [Emphasis:it] [Emphasis:it] [Struck:no]"]),
        ("`a b` and ``a`b``", &["[Code:`a b`] and [Code:``a`b``]"]),
        ("**a `b` c**", &["[Strong:a ][Code:`b`][Strong: c]"]),
        ("***both***", &["[Emphasis:both]"]),
        ("snake_case_name and a*b*c", &["snake_case_name and a[Emphasis:b]c"]),
        ("2 * 3 * 4, ** no **", &["2 * 3 * 4, ** no **"]),
        ("open **mark", &["open **mark"]),
        ("open `mark", &["open `mark"]),
        ("[text](https://a.b/c) and [x] (y)", &["text ([Link:https://a.b/c]) and [x] (y)"]),
        ("![alt](a.png) [https://a.b](https://a.b)", &["alt ([Link:a.png]) [Link:https://a.b]"]),
        ("see https://a.b/c?d=1, or (http://x).", &["see [Link:https://a.b/c?d=1], or ([Link:http://x])."]),
        ("\\*not\\* C:\\dir \\.", &["*not* C:\\dir ."]),
        ("a  \nb\\\nc", &["a", "b", "c"]),
        ("<b>html</b>", &["<b>html</b>"]),
        ("x\u{202e}y", &["x‹U+202E›y"]),
        ("[not a link] (", &["[not a link] ("]),
        ("", &[]),
        ("\n\n", &[]),
    ] {
        assert_eq!(rows(text, 88), expected, "{text:?}");
    }
}

#[test]
fn blocks() {
    for (text, expected) in [
        ("# Title\ntext", &["[Muted:# ][Strong:Title]", "", "text"][..]),
        ("text\n## Next", &["text", "", "[Muted:## ][Strong:Next]"]),
        ("#hash", &["#hash"]),
        ("a:\n- one\n- two\n  more\n- three", &["a:", "- one", "- two more", "- three"]),
        ("1. a\n2. b\n\n   c\n\nd", &["1. a", "2. b", "", "   c", "", "d"]),
        ("- a\n  - b\n    * c", &["- a", "  - b", "    * c"]),
        ("in\n2024. it was", &["in 2024. it was"]),
        ("> a\n> b\n> > c", &["[Muted:│ ]a b", "[Muted:│ │ ]c"]),
        ("a\n\n---\n\nb", &["a", "", "[Muted:⁂]", "", "b"]),
        ("- - -", &["[Muted:⁂]"]),
        ("```\nx  y\n\n  z\n```\nafter", &["x  y", "", "  z", "", "after"]),
        ("a\n```sh\nls\n```", &["a", "", "[Muted:sh]", "ls"]),
        ("~~~ py extra\n1\n~~~~", &["[Muted:py]", "[Warn:1]"]),
        ("```\nno end", &["no end"]),
        ("- a\n  ```\n  x\n    y\n  ```", &["- a", "", "x", "  y"]),
        ("```x``` inline", &["[Code:```x```] inline"]),
        ("````\n```\n````", &["```"]),
        ("    code\n    more", &["code", "more"]),
        ("-", &["- "]),
        ("- [ ] todo\n- [x] done", &["- [ ] todo", "- [x] done"]),
    ] {
        assert_eq!(rows(text, 88), expected, "{text:?}");
    }
}

#[test]
fn rows_are_broken_with_their_indent() {
    assert_eq!(
        rows("- one two three\n> four five six", 9),
        ["- one two", "  three", "[Muted:│ ]four", "[Muted:│ ]five", "[Muted:│ ]six"]
    );
    assert_eq!(rows("# one two three", 9), ["[Muted:# ][Strong:one two]", "[Strong:three]"]);
    assert_eq!(rows("**one two three** four", 10), ["[Strong:one two]", "[Strong:three] four"]);
    assert_eq!(whole("one two three", 9)[1].wrap, Wrap::Next(0));
}

#[test]
fn tables() {
    let table = "| Case | Before | After |\n|---|--:|:-:|\n| empty | 0 | **1** |\n| lone quote | panic | 1 |\n";
    assert_eq!(
        rows(&format!("so:\n{table}\nthen"), 88),
        [
            "so:",
            "",
            "[Strong:Case]        [Strong:Before]  [Strong:After]",
            "[Muted:──────────  ──────  ─────]",
            "empty            0    [Strong:1]",
            "lone quote   panic    1",
            "",
            "then"
        ]
    );
    assert_eq!(rows("a | b\n--|--\n1 | 2\nend", 88), ["[Strong:a]  [Strong:b]", "[Muted:─  ─]", "1  2", "", "end"]);
    assert_eq!(rows("a | b\nno table", 88), ["a | b no table"]);
    assert_eq!(rows("| a\n\nb", 88), ["| a", "", "b"]);
    assert_eq!(rows("|日本|x|\n|---|---|\n|a|b|", 88), ["[Strong:日本]  [Strong:x]", "[Muted:────  ─]", "a     b"]);
    assert_eq!(
        rows("|a|b|\n|-|-|\n|x\\|y|z|w|\n|1|", 88),
        ["[Strong:a]    [Strong:b]", "[Muted:───  ─]", "x|y  z", "1"]
    );
    let wraps = rows("|a|b|\n|-|-|\n|one two three|four five|", 14);
    assert_eq!(
        wraps,
        ["[Strong:a]       [Strong:b]", "[Muted:──────  ──────]", "one     four", "two     five", "three"]
    );
    let records = rows("|Case|Result|\n|-|-|\n|empty|unbreakable-word-here|\n|b|c|", 24);
    assert_eq!(
        records,
        [
            "[Muted:Case]    empty",
            "[Muted:Result]  unbreakable-word",
            "        -here",
            "",
            "[Muted:Case]    b",
            "[Muted:Result]  c"
        ]
    );
}

#[test]
fn a_long_table_fixes_its_column_widths_early() {
    let mut markdown = Markdown::default();
    let mut lines = markdown.push("|a|b|\n|-|-|\n", 40);
    for n in 0..TABLE_ROWS - 1 {
        lines.extend(markdown.push(&format!("|{n}|x|\n"), 40));
    }
    assert_eq!(lines, []);
    assert_eq!(markdown.unfinished_table(40).len(), TABLE_ROWS + 1);
    lines.extend(markdown.push("|11|x|\n", 40));
    assert_eq!(lines.len(), TABLE_ROWS + 2);
    let more = markdown.push("|a longer cell|x|\n", 40);
    assert_eq!(more.iter().map(shown).collect::<Vec<_>>(), ["a   x", "lo", "ng", "er", "ce", "ll"]);
    assert!(markdown.unfinished_table(40).is_empty());
}

#[test]
fn rows_come_as_soon_as_they_are_final() {
    let mut markdown = Markdown::default();
    let mut push = |text: &str| markdown.push(text, 10).iter().map(shown).collect::<Vec<_>>();
    assert_eq!(push("one two th"), [""; 0]);
    assert_eq!(push("ree"), [""; 0], "the word may go on, but no row depends on it");
    assert_eq!(push(" f"), ["one two"]);
    assert_eq!(push("our **fi"), [""; 0]);
    assert_eq!(push("ve six seven ei"), [""; 0], "a mark is open");
    assert_eq!(push("ght** nine ten"), ["three four", "[Strong:five six]", "[Strong:seven]"]);
    assert_eq!(push("\n\n"), ["[Strong:eight] nine", "ten"]);
    assert_eq!(push("```rust\nlet"), ["", "[Muted:rust]"]);
    assert_eq!(push(" x;\n"), ["[Accent:let] x;"]);
    assert_eq!(markdown.newest_words(10), "");
    markdown.push("```\nand so it goes", 88);
    assert_eq!(markdown.newest_words(10), "…it goes");
}

#[test]
fn a_mark_without_an_end_is_text_after_some_rows() {
    let mut markdown = Markdown::default();
    let text = format!("a **b {}", "word ".repeat(100));
    let lines = markdown.push(&text, 20);
    assert!(lines.len() > 15 && shown(&lines[0]).starts_with("a **b word"), "{lines:?}");
}

/// Pieces of documents; random sequences of them are documents.
const PIECES: &[&str] = &[
    "# A heading of some length\n",
    "plain words that go on for a while and wrap at least once\n",
    "\n",
    "\n\n",
    "- item\n",
    "- another item with more words\n",
    "  - nested **item**\n",
    "1. first\n",
    "2. second\n",
    "10) tenth\n",
    "> quoted text that also wraps here\n",
    "> > deeper\n",
    "```rust\nfn main() {}\n\n  x\n```\n",
    "~~~\nraw\n~~~\n",
    "```\nunclosed\n",
    "| a | b |\n|---|--:|\n| 1 | 22 |\n",
    "a | b\n",
    "--|--\n",
    "| x | y |\n",
    "---\n",
    "***\n",
    "* * *\n",
    "**bold** text\n",
    "**open bold over\nlines** here ",
    "*it* and _it_ ",
    "`code span` ",
    "``a`b`` ",
    "[text](https://e.org/x) ",
    "[broken](",
    "![p](u) ",
    "https://e.org/a_b_c. ",
    "~~gone~~ ",
    "snake_case_word ",
    "2*3*4 ",
    "\\*escaped\\* ",
    "line  \n",
    "line\\\n",
    "日本語の文章です。 ",
    "e\u{301}\u{301} ",
    "👩\u{200d}💻👍🏽 ",
    "tab\there ",
    "\u{1b}[31mred ",
    "\u{202e}bidi ",
    "    indented code\n",
    "  two blanks\n",
    "-",
    "+ plus\n",
    "#",
    "#### deep ####\n",
    "_",
    "**",
    "`",
    "|",
    "<div>\n",
    "\r\n",
    "1",
    ".",
    " ",
    "x",
    "averyveryveryverylongwordthatdoesnotfit ",
];

#[test]
fn a_text_gives_the_same_rows_however_it_is_cut() {
    let mut random = Random::new(42);
    for number in 0..250 {
        let count = 3 + random.below(14);
        let text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
        for max_width in [1, 7, 20, 40] {
            let expected = whole(&text, max_width);
            let mut by_character = Markdown::default();
            let mut lines = Vec::new();
            for c in text.chars() {
                lines.extend(by_character.push(c.encode_utf8(&mut [0; 4]), max_width));
                by_character.unfinished_table(max_width);
                by_character.newest_words(max_width);
            }
            lines.extend(by_character.finish(max_width));
            let differs =
                lines.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(lines.len().min(expected.len()));
            let tail = |lines: &[Line]| lines[differs..].iter().map(shown).collect::<Vec<_>>();
            assert!(
                lines == expected,
                "document {number} at {max_width}: {text:?}\n{:?}\n{:?}",
                tail(&lines),
                tail(&expected)
            );
        }
    }
}

#[test]
fn no_row_is_wider_than_allowed_but_code() {
    let mut random = Random::new(7);
    for _ in 0..200 {
        let text: String = (0..12).map(|_| PIECES[random.below(PIECES.len())]).collect();
        for line in whole(&text, 30).iter().filter(|line| line.wrap != Wrap::Soft) {
            assert!(line.width() <= 30, "{:?} of {text:?}", line.content());
        }
    }
}

//! Tests of editing a draft.

use super::*;

/// The text with `|` at the cursor and marks as labels.
fn shown(draft: &Draft) -> String {
    let label = |text: &str| text.chars().map(|c| draft.label(c).unwrap_or_else(|| c.into())).collect::<String>();
    let (before, behind) = draft.text.split_at(draft.cursor);
    format!("{}|{}", label(before), label(behind))
}

fn typed(text: &str) -> Draft {
    let mut draft = Draft::default();
    text.split_inclusive("").for_each(|piece| draft.type_text(piece));
    draft
}

/// A draft with the cursor at `|`.
fn at(text: &str) -> Draft {
    let (before, behind) = text.split_once('|').expect("a cursor");
    Draft { text: format!("{before}{behind}"), cursor: before.len(), ..Draft::default() }
}

#[test]
fn the_cursor_moves_by_clusters_words_and_lines() {
    use Motion::*;
    for (before, motion, after) in [
        ("a|", Left, "|a"),
        ("|", Left, "|"),
        ("e\u{301}|", Left, "|e\u{301}"),
        ("x👩\u{200d}💻|", Left, "x|👩\u{200d}💻"),
        ("a\n|b", Left, "a|\nb"),
        ("|日本", Right, "日|本"),
        ("a|", Right, "a|"),
        ("let snake_case = 1|", WordLeft, "let snake_case = |1"),
        ("let snake_case = |1", WordLeft, "let |snake_case = 1"),
        ("src/lexer.rs|", WordLeft, "src/lexer.|rs"),
        ("|src/lexer.rs", WordRight, "src|/lexer.rs"),
        ("src|/lexer.rs", WordRight, "src/lexer|.rs"),
        ("see 日本語 now|", WordLeft, "see 日本語 |now"),
        ("see 日本語 |now", WordLeft, "see |日本語 now"),
        ("hi 👍👍|", WordLeft, "hi |👍👍"),
        ("ab\ncd|ef", LineStart, "ab\n|cdef"),
        ("ab\n|cdef", LineStart, "|ab\ncdef"),
        ("a|b\ncd", LineEnd, "ab|\ncd"),
        ("ab|\ncd", LineEnd, "ab\ncd|"),
    ] {
        let mut draft = at(before);
        draft.move_by(motion);
        assert_eq!(shown(&draft), after, "{before} {motion:?}");
    }
}

#[test]
fn kills_in_a_row_are_yanked_together_and_older_ones_after_them() {
    let mut draft = at("one two three|");
    draft.kill(Motion::WordLeft);
    draft.kill(Motion::WordLeft);
    assert_eq!(shown(&draft), "one |");
    draft.move_by(Motion::LineStart);
    draft.kill(Motion::LineEnd);
    assert_eq!(shown(&draft), "|");
    draft.yank();
    assert_eq!(shown(&draft), "one |");
    draft.yank_older();
    assert_eq!(shown(&draft), "two three|");
    draft.yank_older();
    assert_eq!(shown(&draft), "one |", "the ring is round");
    draft.type_text("x");
    draft.yank_older();
    assert_eq!(shown(&draft), "one x|", "only right after a yank");
    let mut lines = at("a|\nb");
    lines.kill(Motion::LineEnd);
    assert_eq!(shown(&lines), "a|b");
    for n in 0..KILLS + 3 {
        lines.type_text(&format!(" w{n}"));
        lines.kill(Motion::WordLeft);
        lines.move_by(Motion::Left);
    }
    assert_eq!(lines.kills.len(), KILLS);
}

#[test]
fn undo_goes_by_words_and_redo_returns() {
    let mut draft = typed("one two");
    draft.undo();
    assert_eq!(shown(&draft), "one |");
    draft.undo();
    assert_eq!(shown(&draft), "|");
    draft.undo();
    draft.redo();
    draft.redo();
    assert_eq!(shown(&draft), "one two|");
    draft.erase(Motion::Left);
    draft.erase(Motion::Left);
    assert_eq!(shown(&draft), "one t|");
    draft.undo();
    assert_eq!(shown(&draft), "one two|", "erasing is one step");
    draft.undo();
    draft.type_text("x");
    draft.redo();
    assert_eq!(shown(&draft), "one x|", "a change ends what can be redone");
    draft.replace("from history");
    draft.undo();
    assert_eq!(shown(&draft), "one x|");
}

#[test]
fn what_can_be_undone_is_limited() {
    let mut draft = Draft::default();
    for _ in 0..UNDO_STEPS + 50 {
        draft.type_text("a ");
        draft.move_by(Motion::LineEnd);
    }
    assert_eq!(draft.undo.len(), UNDO_STEPS);
    let mut draft = Draft { text: "x".repeat(UNDO_BYTES / 3), ..Draft::default() };
    (0..10).for_each(|n| draft.replace(&format!("{n}{}", "x".repeat(UNDO_BYTES / 3))));
    assert_eq!(draft.undo.len(), 2);
}

#[test]
fn a_long_paste_is_one_mark_and_is_sent_whole() {
    let long = "line\n".repeat(FOLD_LINES + 1);
    let mut draft = typed("why? ");
    draft.paste(&long);
    draft.type_text("!");
    assert_eq!(shown(&draft), "why? [pasted 11 lines #1]!|");
    assert_eq!(draft.content(), format!("why? {long}!"));
    draft.move_by(Motion::Left);
    draft.erase(Motion::Left);
    assert_eq!(shown(&draft), "why? |!");
    draft.undo();
    assert_eq!(shown(&draft), "why? [pasted 11 lines #1]|!");
    assert!(draft.has_fold() && draft.unfold() && !draft.has_fold());
    assert_eq!(draft.shown(), format!("why? {long}!"));
    assert!(!draft.unfold());
    for (text, folded) in [
        ("x\n".repeat(FOLD_LINES), false),
        ("x\n".repeat(FOLD_LINES + 1), true),
        ("x".repeat(FOLD_BYTES), false),
        ("x".repeat(FOLD_BYTES + 1), true),
    ] {
        let mut draft = Draft::default();
        draft.paste(&text);
        assert_eq!((draft.has_fold(), draft.content()), (folded, text));
    }
    let mut draft = Draft::default();
    (0..FOLDS + 1).for_each(|_| draft.paste(&long));
    assert_eq!(draft.folds.len(), FOLDS);
    assert_eq!(draft.content(), long.repeat(FOLDS + 1));
}

#[test]
fn nobody_can_type_or_paste_a_mark() {
    let mut draft = Draft::default();
    draft.paste(&"x".repeat(FOLD_BYTES + 1));
    draft.type_text("\u{100000}\r\n");
    draft.paste("\u{100000}\r");
    assert!(draft.content().ends_with("x\u{fffd}\n\u{fffd}\n"));
}

#[test]
fn rows_and_the_place_of_the_cursor() {
    let look = |draft: &Draft, max_width: usize| {
        let Rows { rows, row, column } = draft.rows(max_width);
        (rows.into_iter().map(|row| row.text).collect::<Vec<_>>(), row, column)
    };
    let all = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
    assert_eq!(look(&at("|"), 5), (all(&[""]), 0, 0));
    assert_eq!(look(&at("abcde|"), 5), (all(&["abcde"]), 0, 5));
    assert_eq!(look(&at("abcde|f"), 5), (all(&["abcde", "f"]), 1, 0));
    assert_eq!(look(&at("a\n|"), 5), (all(&["a", ""]), 1, 0));
    assert_eq!(look(&at("日本|語"), 5), (all(&["日本", "語"]), 1, 0));
    assert_eq!(look(&at("a\u{202e}|"), 20), (all(&["a‹U+202E›"]), 0, 9));
}

#[test]
fn up_and_down_go_by_rows_and_say_when_there_is_none() {
    let mut draft = at("abcdefgh\nij|");
    assert!(!draft.move_row(Direction::Down, 5));
    assert!(draft.move_row(Direction::Up, 5));
    assert_eq!(shown(&draft), "abcdefg|h\nij");
    assert!(draft.move_row(Direction::Up, 5));
    assert_eq!(shown(&draft), "ab|cdefgh\nij");
    assert!(!draft.move_row(Direction::Up, 5));
    assert!(draft.move_row(Direction::Down, 5));
    assert!(draft.move_row(Direction::Down, 5));
    assert_eq!(shown(&draft), "abcdefgh\nij|");
    let mut wide = at("日本\nabcd|");
    assert!(wide.move_row(Direction::Up, 9));
    assert_eq!(shown(&wide), "日本|\nabcd");
    let mut long = at("abcdefghij|");
    long.move_row(Direction::Up, 5);
    assert_eq!(shown(&long), "abcd|efghij", "the row ends before its last character");
}

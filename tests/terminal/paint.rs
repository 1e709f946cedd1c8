//! Tests of the painter with a terminal model: the screen shows what is painted, and no printed line is lost.

use crate::random::Random;
use crate::vt::{Resizing, Vt};
use gemini_a2a::ui::format::style::{Colours, Role, Style};
use gemini_a2a::ui::format::wrap::Line;
use gemini_a2a::ui::output::paint::{Frame, Painter, Size};

fn style() -> Style {
    Style { colours: Colours::Sixteen, background: None, themed: false, unicode: true }
}

fn line(text: &str) -> Line {
    Line::new(Role::Text, text)
}

fn lines(text: &str) -> Vec<Line> {
    text.split('\n').map(line).collect()
}

/// A terminal with a painter.
struct Screen {
    vt: Vt,
    painter: Painter,
    size: Size,
}

impl Screen {
    fn new(columns: usize, rows: usize, resizing: Resizing) -> Screen {
        Screen { vt: Vt::new(columns, rows, resizing), painter: Painter::new(style()), size: Size { columns, rows } }
    }

    fn paint(&mut self, frame: &Frame) -> usize {
        let bytes = self.painter.paint(frame, self.size);
        self.vt.feed(&bytes);
        bytes.len()
    }

    fn resize(&mut self, columns: usize, rows: usize) {
        self.size = Size { columns, rows };
        self.vt.resize(columns, rows);
    }
}

fn frame(finished: &str, live: &str, cursor: Option<(usize, usize)>) -> Frame {
    let finished = if finished.is_empty() { Vec::new() } else { lines(finished) };
    Frame { finished, live: lines(live), cursor, ..Frame::default() }
}

#[test]
fn done_lines_stay_and_the_live_region_is_painted_below() {
    let mut screen = Screen::new(20, 6, Resizing::Reflows);
    screen.paint(&frame("one\ntwo", "status\n\n› abc", Some((2, 5))));
    assert_eq!(screen.vt.picture(), "one\ntwo\nstatus\n\n› abc█");
    screen.paint(&frame("three\nfour\nfive", "› abc", Some((0, 5))));
    assert_eq!(screen.vt.picture(), "one\ntwo\nthree\nfour\nfive\n› abc█");
    screen.paint(&frame("a line that is longer than the screen", "? yes\n  no", None));
    assert_eq!(screen.vt.picture(), "four\nfive\na line that is longe\nr than the screen\n? yes\n  no");
    assert_eq!(screen.vt.everything().lines().next(), Some("one"));
    assert_eq!(screen.vt.cursor(), (4, 0), "it is parked on the first live row");
    screen.paint(&Frame { finished: lines("bye"), ..Frame::default() });
    assert_eq!(screen.vt.picture(), "four\nfive\na line that is longe\nr than the screen\nbye\n█");
}

#[test]
fn lines_as_wide_as_the_screen_keep_their_last_character() {
    let mut screen = Screen::new(10, 5, Resizing::Reflows);
    screen.paint(&frame("", "old live row\nsecond one", Some((1, 0))));
    screen.paint(&frame("0123456789\n日本語日本語", "x", Some((0, 1))));
    assert_eq!(screen.vt.picture(), "0123456789\n日本語日本\n語\nx█");
    let mut narrow = Screen::new(9, 6, Resizing::Reflows);
    narrow.paint(&frame("", "########\n########\n########", Some((0, 0))));
    narrow.paint(&frame("日本語日本語", "x", Some((0, 1))));
    assert_eq!(narrow.vt.picture(), "日本語日\n本語\nx█");
}

#[test]
fn only_what_changed_is_sent() {
    let mut screen = Screen::new(80, 24, Resizing::Reflows);
    let live = |spinner: &str, draft: &str| {
        let composer = Line::new(Role::Accent, "› ").text(draft);
        let rows = vec![
            line(&format!("{spinner} thinking · 14s · esc stops")),
            Line::default(),
            composer,
            Line::default(),
            line("  footer"),
        ];
        Frame { live: rows, cursor: Some((2, 2 + draft.len())), ..Frame::default() }
    };
    screen.paint(&live("⠋", "abc"));
    assert_eq!(screen.paint(&live("⠋", "abc")), 0);
    let bytes = screen.paint(&live("⠙", "abc"));
    assert!(bytes <= 24, "{bytes} bytes for a step of the spinner");
    let bytes = screen.paint(&live("⠙", "abcd"));
    assert!(bytes <= 16, "{bytes} bytes for a key");
    assert_eq!(screen.vt.picture(), "⠙ thinking · 14s · esc stops\n\n› abcd█\n\n  footer");
    screen.paint(&live("⠙", ""));
    assert_eq!(screen.vt.picture(), "⠙ thinking · 14s · esc stops\n\n› █\n\n  footer");
    screen.paint(&Frame { cursor: None, ..live("⠙", "") });
    assert!(!screen.vt.visible);
    screen.paint(&live("⠙", ""));
    assert!(screen.vt.visible);
}

fn random_line(random: &mut Random, most: usize) -> Line {
    let words = ["a", "word", "日本", "é", "emoji 😀", "👩\u{200d}💻", "x\u{1b}[2Jy", "tab\t", "❤\u{fe0f}", "   "];
    let roles = [Role::Text, Role::Accent, Role::Muted, Role::Add, Role::Strong];
    let mut line = Line::default();
    while line.width() < random.below(most) {
        line = line.add(roles[random.below(roles.len())], words[random.below(words.len())]);
    }
    line
}

/// Random frames, each painted over the last one, are what a fresh terminal shows.
#[test]
fn a_painted_frame_looks_as_if_painted_afresh() {
    let mut random = Random::new(3);
    for round in 0..400 {
        let (columns, rows) = (8 + random.below(40), 4 + random.below(10));
        let mut screen = Screen::new(columns, rows, Resizing::Reflows);
        let mut all: Vec<Line> = Vec::new();
        for _ in 0..12 {
            let finished: Vec<Line> = (0..random.below(3)).map(|_| random_line(&mut random, 60)).collect();
            let live: Vec<Line> = (0..1 + random.below(rows - 1)).map(|_| random_line(&mut random, columns)).collect();
            let cursor = (random.below(4) > 0).then(|| (random.below(live.len()), random.below(columns)));
            let frame = Frame { finished: finished.clone(), live, cursor, ..Frame::default() };
            screen.paint(&frame);
            all.extend(finished);
            let mut fresh = Screen::new(columns, rows, Resizing::Reflows);
            fresh.paint(&Frame { finished: all.clone(), ..frame });
            assert_eq!(screen.vt.everything(), fresh.vt.everything(), "round {round}");
            assert_eq!(screen.vt.styled(), fresh.vt.styled(), "round {round}");
            assert_eq!(screen.vt.visible, cursor.is_some());
            if let Some((_, column)) = cursor {
                assert_eq!(screen.vt.cursor().1, column.min(columns - 1), "round {round}");
            }
        }
    }
}

const SIZES: [(usize, usize); 8] = [(80, 24), (120, 40), (40, 20), (79, 24), (100, 10), (30, 30), (44, 8), (81, 25)];

/// After a resize, every printed line and the composer are there exactly once, in terminals with and without reflow.
#[test]
fn resizing_loses_and_repeats_no_line() {
    for resizing in [Resizing::Reflows, Resizing::Cuts] {
        for (before, after) in SIZES.iter().flat_map(|before| SIZES.map(|after| (*before, after))) {
            let mut screen = Screen::new(before.0, before.1, resizing);
            let mut number = 0;
            let mut step = |screen: &mut Screen, frames: usize, lines: usize| {
                for _ in 0..frames {
                    let some: Vec<String> = (1..=lines).map(|at| format!("line {}.", number + at)).collect();
                    number += lines;
                    let live = "⠋ busy · 3s\n\n› draft\n\n  ~/src/parser main · gemini-pro · 3% · asks · 2 clients";
                    screen.paint(&frame(&some.join("\n"), live, Some((2, 7))));
                }
                number
            };
            step(&mut screen, 30, 1);
            // Each line comes to stand where any of the live rows was.
            for lines in 1..7 {
                screen.resize(after.0, after.1);
                step(&mut screen, 2, lines);
                screen.resize(before.0, before.1);
                step(&mut screen, 2, lines);
            }
            let last = step(&mut screen, 30, 1);
            let all = screen.vt.everything();
            for number in 1..=last {
                let count = all.lines().filter(|line| *line == format!("line {number}.")).count();
                assert_eq!(count, 1, "line {number}, {resizing:?} from {before:?} to {after:?}\n{all}");
            }
            assert_eq!(all.matches("› draft").count(), 1, "{resizing:?} from {before:?} to {after:?}\n{all}");
        }
    }
}

#[test]
fn a_redraw_pushes_the_screen_into_the_scrollback() {
    let mut screen = Screen::new(20, 6, Resizing::Reflows);
    screen.paint(&frame("one\ntwo\nthree\nfour\nfive", "› x", Some((0, 3))));
    let again = Frame { redraw: true, ..frame("four\nfive", "› x", Some((0, 3))) };
    screen.paint(&again);
    assert_eq!(screen.vt.picture(), "four\nfive\n› x█");
    assert_eq!(screen.vt.scrolled(), ["one", "two", "three", "four", "five"], "and no old composer");
    let mut half = Screen::new(20, 10, Resizing::Reflows);
    half.paint(&frame("one", "› x", Some((0, 3))));
    half.paint(&again);
    assert_eq!((half.vt.picture(), half.vt.everything()), ("four\nfive\n› x█".into(), "one\nfour\nfive\n› x".into()));
}

#[test]
fn tiny_terminals_do_not_panic() {
    for (columns, rows) in (1..=20).flat_map(|columns| (1..=6).map(move |rows| (columns, rows))) {
        let mut screen = Screen::new(columns, rows, Resizing::Cuts);
        screen.paint(&frame("some finished text 日本", "status\n› draft 日本\n  footer", Some((1, 30))));
        screen.paint(&frame("", "› d", Some((0, 3))));
        screen.paint(&Frame { redraw: true, ..frame("x", "a\nb\nc\nd\ne\nf\ng\nh", Some((7, 1))) });
    }
}

#[test]
fn roles_are_sgr_parameters_and_end_with_their_text() {
    let mut screen = Screen::new(40, 4, Resizing::Reflows);
    let finished = Line::new(Role::Ok, "✓").text(" Read ").add(Role::Muted, "a.rs").add(Role::Err, "!");
    screen.paint(&Frame {
        finished: vec![finished],
        live: vec![Line::new(Role::Accent, "› ").text("x")],
        cursor: Some((0, 3)),
        ..Frame::default()
    });
    assert_eq!(screen.vt.styled(), "{32}✓{} Read {2}a.rs{31}!\n{36}› {}x");
    let mut plain = Painter::new(Style { colours: Colours::None, background: None, themed: false, unicode: false });
    let finished = vec![Line::new(Role::Ok, "✓ ").add(Role::Muted, "é · …")];
    let bytes = plain.paint(&Frame { finished, ..Frame::default() }, Size { columns: 20, rows: 4 });
    assert_eq!(
        String::from_utf8(bytes).expect("text"),
        "\x1b[?2026h\x1b[?25l\rv \x1b[2m? - .\x1b[m\x1b[K\r\n\x1b[?7l\x1b[J\x1b[?7h\r\x1b[?25h\x1b[?2026l"
    );
}

//! Tests of decoding the bytes that terminals send.

use super::*;
use crate::base::test_random::Random;
use crate::ui::input::bind::name;

/// Inputs as short texts: `ctrl-a`, `"text"`, `paste "…"`.
fn words(inputs: &[TerminalInput]) -> String {
    let word = |input: &TerminalInput| match input {
        TerminalInput::Text(text) => format!("{text:?}"),
        TerminalInput::Paste(text) => format!("paste {text:?}"),
        TerminalInput::PasteCut => "cut".into(),
        TerminalInput::Focus(focus) => format!("focus {focus}"),
        TerminalInput::Reply(reply) => format!("{reply:?}"),
        TerminalInput::Junk => "junk".into(),
        TerminalInput::Key(key) => name(*key),
    };
    inputs.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// All inputs of the bytes, and what a long wait adds.
fn decoded(bytes: &[u8]) -> String {
    let mut decoder = Decoder { pastes_are_marked: true, ..Decoder::default() };
    let mut inputs = decoder.feed(bytes, 1_000);
    inputs.extend(decoder.tick(100_000));
    words(&inputs)
}

#[test]
fn every_key_in_every_form() {
    for (name, forms) in [
        ("enter", &["\r", "\x1b[13u", "\x1b[13;1u", "\x1bOM", "\x1b[57414u"][..]),
        ("shift-enter", &["\x1b[13;2u", "\x1b[27;2;13~"]),
        ("alt-enter", &["\x1b\r", "\x1b[13;3u", "\x1b[27;3;13~"]),
        ("ctrl-enter", &["\x1b[13;5u", "\x1b[27;5;13~"]),
        ("ctrl-j", &["\n", "\x1b[106;5u", "\x1b[27;5;106~"]),
        ("tab", &["\t", "\x1b[9u"]),
        ("shift-tab", &["\x1b[Z", "\x1bOZ", "\x1b[9;2u", "\x1b[27;2;9~"]),
        ("backspace", &["\x7f", "\x08", "\x1b[127u"]),
        ("alt-backspace", &["\x1b\x7f", "\x1b[127;3u"]),
        ("ctrl-backspace", &["\x1b[127;5u", "\x1b[27;5;127~"]),
        ("delete", &["\x1b[3~", "\x1b[57426u"]),
        ("ctrl-delete", &["\x1b[3;5~", "\x1b[3^"]),
        ("shift-delete", &["\x1b[3;2~", "\x1b[3$"]),
        ("esc", &["\x1b", "\x1b[27u", "\x1b[27;1u"]),
        ("up", &["\x1b[A", "\x1bOA", "\x1b[1;1A", "\x1b[57419u"]),
        ("down", &["\x1b[B", "\x1bOB"]),
        ("left", &["\x1b[D", "\x1bOD"]),
        ("right", &["\x1b[C", "\x1bOC"]),
        ("ctrl-left", &["\x1b[1;5D", "\x1bOd"]),
        ("ctrl-right", &["\x1b[1;5C", "\x1bOc"]),
        ("shift-right", &["\x1b[1;2C", "\x1b[c"]),
        ("alt-left", &["\x1b[1;3D", "\x1b\x1b[D", "\x1b\x1bOD"]),
        ("alt-right", &["\x1b[1;3C"]),
        ("home", &["\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"]),
        ("end", &["\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"]),
        ("pageup", &["\x1b[5~"]),
        ("pagedown", &["\x1b[6~"]),
        ("f1", &["\x1bOP", "\x1b[11~", "\x1b[[A", "\x1b[P"]),
        ("f5", &["\x1b[15~", "\x1b[[E"]),
        ("f6", &["\x1b[17~"]),
        ("f12", &["\x1b[24~"]),
        ("ctrl-a", &["\x01", "\x1b[97;5u", "\x1b[27;5;97~", "\x1b[97:65;5u"]),
        ("ctrl-z", &["\x1a", "\x1b[122;5u"]),
        ("ctrl-space", &["\0", "\x1b[32;5u"]),
        ("ctrl-_", &["\x1f", "\x1b[95;5u"]),
        ("ctrl-7", &["\x1b[55;5u"]),
        ("alt-b", &["\x1bb", "\x1b[98;3u"]),
        ("alt-Z", &["\x1bZ", "\x1b[122;4u", "\x1b[122:90;4u"]),
        ("alt-∫", &["\x1b∫"]),
        ("ctrl-alt-x", &["\x1b\x18", "\x1b[120;7u"]),
        ("\"A\"", &["A", "\x1b[97;2u", "\x1b[97:65;2;65u"]),
        ("\"é\"", &["é", "\x1b[233u"]),
        ("\"5\"", &["5", "\x1b[57404u"]),
        ("\"∫ƒ∂\"", &["∫ƒ∂"]),
    ] {
        for form in forms {
            assert_eq!(decoded(form.as_bytes()), name, "{form:?}");
        }
    }
}

#[test]
fn replies_and_sequences_that_are_no_keys() {
    for (name, forms) in [
        ("focus true", &["\x1b[I"][..]),
        ("focus false", &["\x1b[O"]),
        ("Kitty", &["\x1b[?0u", "\x1b[?1u"]),
        ("Attributes", &["\x1b[?62;22c", "\x1b[?1;2c"]),
        ("Version(\"tmux 3.3a\")", &["\x1bP>|tmux 3.3a\x1b\\"]),
        ("Background([0, 43, 54])", &["\x1b]11;rgb:0000/2b2b/3636\x1b\\", "\x1b]11;rgb:00/2b/36\x07"]),
        ("Synchronised(true)", &["\x1b[?2026;2$y", "\x1b[?2026;1$y"]),
        ("Synchronised(false)", &["\x1b[?2026;0$y", "\x1b[?2026;4$y"]),
        ("Position", &["\x1b[24;80R"]),
        ("f3", &["\x1bOR", "\x1b[R", "\x1b[1;1R", "\x1b[13~"]),
        ("shift-f3", &["\x1b[1;2R"]),
        ("", &["\x1b[97;1:3u", "\x1b[1;1:3A"]),
        (
            "junk",
            &["\x1b[9999X", "\x1b[57441;1u", "\x1b]52;c;x\x07", "\x1bP1$r\x1b\\", "\x1b[99999999999u", "\x1b[?1x"],
        ),
        ("alt-]", &["\x1b]"]),
        ("alt-O", &["\x1bO"]),
        ("esc esc", &["\x1b\x1b"]),
        ("esc alt-x", &["\x1b\x1bx"]),
    ] {
        for form in forms {
            assert_eq!(decoded(form.as_bytes()), name, "{form:?}");
        }
    }
}

#[test]
fn text_is_joined_and_invalid_bytes_are_replaced() {
    assert_eq!(decoded("héllo 日本".as_bytes()), "\"héllo 日本\"");
    assert_eq!(decoded(b"a\xffb\xc3"), "\"a\u{fffd}b\" \"\u{fffd}\"");
    assert_eq!(decoded(b"\xe6\x97x"), "\"\u{fffd}x\"");
    assert_eq!(decoded(b"\xf0\x9f\x91\x8d"), "\"👍\"");
}

/// Whatever a terminal sends: joined texts, because reads may split them.
fn samples() -> Vec<Vec<u8>> {
    let texts = [
        "héllo\x1b[A\x1b[1;5Dx\x1bb日本\r",
        "\x1b[200~a\r\nb\x1b[31m\rc\0\x1b[201~after\x1b]11;rgb:ff/ff/ff\x1b\\z",
        "\x1bP>|kitty(0.35)\x1b\\\x1b[?1u\x1b[?62c\x1b[97;5u\x1b[27;2;13~",
        "\x1b\x1b[A\x1b[[B\x1bOa\x1b[3$\x1b[3^👩\u{200d}💻\x1b[I\x1b[O",
    ];
    let mut samples: Vec<Vec<u8>> = texts.map(|text| text.as_bytes().to_vec()).into();
    samples.push(
        b"a\xff\xe6\x97\x1b[\x01\x1b[99999999999999999999999999999999999999999999999999999999999999999999;X".to_vec(),
    );
    samples
}

fn joined(inputs: Vec<TerminalInput>) -> Vec<TerminalInput> {
    let mut all: Vec<TerminalInput> = Vec::new();
    for input in inputs {
        match (all.last_mut(), input) {
            (Some(TerminalInput::Text(before)), TerminalInput::Text(text)) => before.push_str(&text),
            (_, input) => all.push(input),
        }
    }
    all
}

#[test]
fn a_stream_means_the_same_however_it_is_split() {
    for sample in samples() {
        let feed = |pieces: &[&[u8]]| {
            let mut decoder = Decoder::default();
            let mut inputs: Vec<TerminalInput> = pieces.iter().flat_map(|piece| decoder.feed(piece, 5)).collect();
            inputs.extend(decoder.tick(100_000));
            joined(inputs)
        };
        let whole = feed(&[&sample]);
        for at in 0..sample.len() {
            let (head, tail) = sample.split_at(at);
            assert_eq!(feed(&[head, tail]), whole, "{:?} at {at}", String::from_utf8_lossy(&sample));
        }
        assert_eq!(feed(&sample.chunks(1).collect::<Vec<_>>()), whole);
    }
}

/// The same for random bytes, cut at random places.
#[test]
fn random_bytes_mean_the_same_however_they_are_split() {
    let mut random = Random::new(11);
    let alphabet = b"\x1b\x1b[[]OP<>?;:0123456789uAZ~$^\\\x07\ra\xe6\x97";
    for _ in 0..5_000 {
        let length = 1 + random.below(40);
        let bytes: Vec<u8> = (0..length).map(|_| random.one_of(alphabet)).collect();
        let mut cuts: Vec<usize> = (0..random.below(5)).map(|_| random.below(length)).chain([0, length]).collect();
        cuts.sort_unstable();
        let feed = |cuts: &[usize]| {
            let mut decoder = Decoder::default();
            let pieces = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
            let mut inputs: Vec<TerminalInput> = pieces.flat_map(|piece| decoder.feed(piece, 5)).collect();
            inputs.extend(decoder.tick(100_000));
            joined(inputs)
        };
        assert_eq!(feed(&cuts), feed(&[0, length]), "{:?} at {cuts:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn a_lone_escape_is_a_key_after_a_while() {
    let mut decoder = Decoder::default();
    assert_eq!(decoder.feed(b"\x1b", 100), []);
    assert_eq!(decoder.due(), Some(100 + ESCAPE_MS));
    assert_eq!(decoder.tick(100 + ESCAPE_MS - 1), []);
    assert_eq!(words(&decoder.feed(b"[A", 100 + ESCAPE_MS - 1)), "up");
    assert_eq!(decoder.due(), None);
    decoder.feed(b"\x1b", 1_000);
    assert_eq!(words(&decoder.tick(1_000 + ESCAPE_MS)), "esc");
    decoder.feed(b"\x1b", 2_000);
    assert_eq!(words(&decoder.feed(b"[A", 2_000 + ESCAPE_MS)), "esc \"[A\"");
    decoder.escapes_are_sequences = true;
    decoder.feed(b"\x1b", 3_000);
    assert_eq!(decoder.tick(3_000 + ESCAPE_MS), []);
    assert_eq!(words(&decoder.feed(b"[27u", 3_000 + SEQUENCE_END_MS - 1)), "esc");
    decoder.feed(b"\x1b[1;", 10_000);
    assert_eq!(words(&decoder.tick(10_000 + SEQUENCE_END_MS)), "junk");
    assert_eq!(words(&decoder.feed(b"5D", 12_000)), "\"5D\"");
}

#[test]
fn sequences_that_are_too_long_are_dropped_whole() {
    let long =
        format!("\x1b[{}m|\x1b]11;{}\x07|\x1bP>|{}\x1b\\|", "1;".repeat(200), "x".repeat(9_000), "y".repeat(9_000));
    assert_eq!(decoded(long.as_bytes()), "junk \"|\" junk \"|\" junk \"|\"");
    let fits = format!("\x1bP>|{}\x1b\\", "y".repeat(STRING_BYTES - 3));
    assert!(decoded(fits.as_bytes()).starts_with("Version"));
}

#[test]
fn pastes_are_whole_and_clean() {
    assert_eq!(decoded(b"\x1b[200~a\r\nb\rc\td\x00\x1b[31m\x1b[201~"), "paste \"a\\nb\\nc\\td[31m\"");
    assert_eq!(decoded(b"\x1b[200~/quit\r\x1b[201~"), "paste \"/quit\\n\"");
    assert_eq!(decoded(b"\x1b[200~no end"), "paste \"no end\"");
    assert_eq!(decoded(b"\x1b[201~"), "junk");
    let mut decoder = Decoder::default();
    decoder.feed(b"\x1b[200~a", 0);
    decoder.feed(b"b", PASTE_END_MS - 1);
    assert_eq!(decoder.tick(2 * PASTE_END_MS - 2), []);
    assert_eq!(words(&decoder.tick(2 * PASTE_END_MS - 1)), "paste \"ab\"");
}

/// What follows a mark of the end that was inside of the pasted text is no command.
#[test]
fn an_enter_right_after_a_paste_sends_nothing() {
    let mut decoder = Decoder::default();
    assert_eq!(words(&decoder.feed(b"\x1b[200~x\x1b[201~rm -rf\r", 0)), "paste \"x\" \"rm -rf\" ctrl-j");
    assert_eq!(words(&decoder.feed(b"\r", BURST_ENTER_MS)), "ctrl-j");
    assert_eq!(words(&decoder.feed(b"\r", BURST_ENTER_MS + 1)), "enter");
}

#[test]
fn a_paste_has_a_limit() {
    let paste = |bytes: usize| {
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[200~", 0);
        let mut inputs = decoder.feed(&vec![b'x'; bytes], 0);
        inputs.extend(decoder.feed(b"\x1b[201~y", 0));
        let Some(TerminalInput::Paste(text)) = inputs.first() else { panic!("a paste") };
        (text.len(), words(&inputs[1..]))
    };
    assert_eq!(paste(PASTE_BYTES), (PASTE_BYTES, "\"y\"".into()));
    assert_eq!(paste(PASTE_BYTES + 1), (PASTE_BYTES, "\"y\"".into()), "the mark hides one byte");
    assert_eq!(paste(PASTE_BYTES + 100), (PASTE_BYTES, "cut \"y\"".into()));
}

#[test]
fn fast_text_without_marks_is_pasted() {
    let typed = |steps: &[(u64, &str)]| {
        let mut decoder = Decoder::default();
        let inputs = steps.iter().flat_map(|(at, text)| decoder.feed(text.as_bytes(), *at)).collect::<Vec<_>>();
        words(&joined(inputs))
    };
    assert_eq!(typed(&[(0, "abc\rdef\r")]), "\"abc\" ctrl-j \"def\" ctrl-j");
    assert_eq!(typed(&[(0, "a"), (8, "b"), (16, "c"), (46, "\r")]), "\"abc\" ctrl-j");
    assert_eq!(typed(&[(0, "a"), (8, "b"), (16, "c"), (47, "\r")]), "\"abc\" enter");
    assert_eq!(typed(&[(0, "a"), (8, "b"), (17, "c"), (18, "\r")]), "\"abc\" enter");
    assert_eq!(typed(&[(0, "ab\r")]), "\"ab\" enter");
    assert_eq!(typed(&[(0, "\x1b[200~x\x1b[201~"), (99, "abc\r")]), "paste \"x\" \"abc\" enter");
}

#[test]
fn random_bytes_never_panic_and_never_confirm() {
    let mut random = Random::new(7);
    // Without the bytes that Enter and y consist of in any form.
    let is_harmless = |byte: &u8| !b"\r1My".contains(byte);
    for round in 0..2_000_u64 {
        let alphabet = b"\x1b[]OP<>?;:023456789uAZ~$^\\\x07";
        let mut byte = || if random.below(4) == 0 { random.below(256) as u8 } else { random.one_of(alphabet) };
        let bytes: Vec<u8> = (0..40).map(|_| byte()).filter(is_harmless).collect();
        let mut decoder = Decoder::default();
        let mut inputs = decoder.feed(&bytes, round);
        inputs.extend(decoder.tick(round + 10_000));
        let confirms = |input: &TerminalInput| match input {
            TerminalInput::Key(key) => key.code == Code::Enter,
            TerminalInput::Text(text) => text.contains('y'),
            _ => false,
        };
        assert!(!inputs.iter().any(confirms), "{bytes:?}");
    }
}

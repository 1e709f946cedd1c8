//! Tests of patterns in both dialects.

use super::*;

fn glob(pattern: &str, text: &str) -> bool {
    Glob::new(pattern, Case::Exact).expect("the pattern is valid").matches(text.as_bytes())
}

#[test]
fn stars_stop_at_slashes_and_double_stars_do_not() {
    let table = [
        ("*.rs", "a.rs", true),
        ("*.rs", "src/a.rs", false),
        ("**/*.rs", "a.rs", true),
        ("**/*.rs", "src/deep/a.rs", true),
        ("src/**", "src/a/b", true),
        ("src/**", "srcs/a", false),
        ("src/**/b", "src/b", true),
        ("src/**/b", "src/x/y/b", true),
        ("src/**/b", "src/xb", false),
        ("**/a/**/b", "x/a/y/z/b", true),
        ("**/a*/**/b?", "x/aa/b/ab/bc", true),
        ("a**b", "axxb", true),
        ("a**b", "ax/xb", false),
        ("**", "a/b", true),
        ("*a*b*", "xxaxxbxx", true),
        ("*a*b*", "xxbxxaxx", false),
        ("", "", true),
        ("", "a", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn classes_braces_and_characters() {
    let table = [
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("[^a-c]x", "äx", true),
        ("[]x]", "]", true),
        ("[x", "[x", true),
        ("[[:digit:]]", "7", true),
        ("?", "ä", true),
        ("[ä-ü]", "ö", true),
        ("a{b,c{d,e}}f", "acef", true),
        ("a{b,c{d,e}}f", "acf", false),
        ("{a,b}{c,d}", "bd", true),
        ("{a}", "{a}", true),
        ("{{a,b}", "{b", true),
        ("\\{a,b\\}", "{a,b}", true),
        ("*.{ts,tsx}", "a.tsx", true),
        ("\\*", "*", true),
        ("\\*", "x", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(glob(pattern, text), expected, "{pattern} {text}");
    }
    // Eight pairs of braces make 256 patterns, the most that is allowed.
    assert_eq!(Glob::new(&"{a,b}".repeat(8), Case::Exact).map(|glob| glob.0.len()), Ok(GLOB_ALTERNATIVES));
    assert!(Glob::new(&("{a,b}".repeat(8) + "{,c,d}"), Case::Exact).is_err());
    assert!(Glob::new(&"{a,b}".repeat(9), Case::Exact).is_err());
    assert!(Glob::new("a\\", Case::Exact).is_err());
}

#[test]
fn case_is_folded_on_request() {
    let folded = Glob::new("SRC/[a-c]*.Rs", Case::Folded).expect("it is valid");
    assert!(folded.matches(b"src/Bx.rS"));
    assert!(!glob("SRC/*", "src/a"));
}

#[test]
fn an_escaped_text_is_itself() {
    for text in ["a[1]", "{a,b}", "a\\b", "*", "?", "**/x", "[!a]", "plain"] {
        assert!(glob(&escaped(text), text), "{text}");
    }
    assert!(!glob(&escaped("a[1]"), "a1"));
    assert!(!glob(&escaped("*"), "x"));
}

#[test]
fn a_pattern_without_a_slash_matches_names() {
    let matches = |pattern: &str, path: &str| {
        let glob = NameGlob::new(pattern, Case::Exact).expect("it is valid");
        glob.matches(path.as_bytes())
    };
    assert!(matches("*.rs", "src/a.rs"));
    assert!(matches("/*.rs", "a.rs"));
    assert!(!matches("/*.rs", "src/a.rs"));
    assert!(matches("./src/*.rs", "src/a.rs"));
    assert!(!matches("src/*.rs", "x/src/a.rs"));
}

#[test]
fn directories_that_cannot_lead_to_a_match_are_known() {
    let table = [
        ("src/*.rs", "src/", true),
        ("src/*.rs", "tests/", false),
        ("src/*.rs", "src/deep/", false),
        ("src/**/x", "src/deep/er/", true),
        ("s*/d?/x", "src/dd/", true),
        ("s*/d?/x", "src/ddd/", false),
        ("**/x", "any/thing/", true),
        ("{a,b/c}/x", "b/", true),
        ("{a,b/c}/x", "c/", false),
        ("x", "x/", false),
    ];
    for (pattern, dir, expected) in table {
        let glob = Glob::new(pattern, Case::Exact).expect("it is valid");
        assert_eq!(glob.could_match_in(dir.as_bytes()), expected, "{pattern} {dir}");
    }
}

#[test]
fn many_stars_are_matched_in_linear_time() {
    let pattern = "*a".repeat(200) + "b";
    let text = "a".repeat(20_000);
    assert!(!glob(&pattern, &text));
    let pattern = "**/a*".repeat(100) + "/b";
    let text = "a/".repeat(5_000);
    assert!(!glob(&pattern, &text));
}

use super::*;
use crate::limits::PADDING_CHARS;

/// A line as what it runs: words with one blank between them, `?` before an open one, `*` before a pattern.
fn read(line: &str) -> Vec<String> {
    let parsed = parse(line).unwrap_or_else(|why| panic!("{line:?} is unclear: {}", why.0));
    parsed.commands.iter().map(shown).collect()
}

fn shown(simple: &Simple) -> String {
    let mut words: Vec<String> = simple.assigns.iter().map(|name| format!("{name}=")).collect();
    words.extend(simple.argv.iter().map(|word| match word.sure {
        Sure::Literal => word.text.clone(),
        Sure::Pattern => format!("*{}", word.text),
        Sure::Open => format!("?{}", word.text),
    }));
    words.extend(simple.redirects.iter().map(|redirect| {
        let sign = match redirect.flow {
            Flow::Read => "<",
            Flow::Write => ">",
            Flow::Text => "<<",
            Flow::Copy => "&",
        };
        format!("{sign}{}", redirect.target.text)
    }));
    let role = match simple.role {
        Role::Actor => "",
        Role::Courier => "via ",
    };
    format!("{role}{}", words.join(" "))
}

#[track_caller]
fn reads(table: &[(&str, &[&str])]) {
    for (line, expected) in table {
        assert_eq!(read(line), *expected, "{line:?}");
    }
}

#[test]
fn lists_pipes_and_groups() {
    reads(&[
        ("", &[]),
        ("# nothing", &[]),
        ("a", &["a"]),
        ("a;b&c&&d||e|f|&g\nh", &["a", "b", "c", "d", "e", "f", "g", "h"]),
        ("a &&\n\n b | # why\n c", &["a", "b", "c"]),
        ("(a; b) | { c; d; }", &["a", "b", "c", "d"]),
        ("! a; time -p b; ! time c", &["a", "b", "c"]),
        ("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c\ndo d\ndone", &["a", "b", "c", "d"]),
        ("for x in 1 $(a) 3; do b; done", &["a", "b"]),
        ("for x\ndo b; done; for x; do c; done", &["b", "c"]),
        ("for ((i=0; i<3; i++)); do b; done", &["(( ?…", "b"]),
        ("case $(a) in (x|y) b;; z) c;& *) d;;& esac", &["a", "b", "c", "d"]),
        ("[[ -f $(a) && ( x < y ) ]] && b", &["a", "[[ ?…", "b"]),
        ("((1+2)); b", &["(( ?…", "b"]),
        ("f() { a; }; function g { b; }; function h() (c)", &["a", "b", "c"]),
    ]);
}

#[test]
fn words() {
    reads(&[
        ("'a b'c\"d e\"\\ f", &["a bcd e f"]),
        ("\"\\a\\$\\\"\\\\\"", &["\\a$\"\\"]),
        ("$'a\\tb\\x41\\101\\u0042'", &["a\tbAAB"]),
        ("a\\\nb c", &["ab c"]),
        ("a $ b$", &["a $ b$"]),
        ("a *.c [x] '*'", &["a **.c *[x] *"]),
        ("[ -f x ]", &["[ -f x ]"]),
        ("a {} {b} {c,d} {1..3} x{y", &["a {} {b} ?{c,d} ?{1..3} x{y"]),
        ("a ~ ~b c~ d=~ '~'", &["a ?~ ?~b c~ ?d=~ ~"]),
        ("a $b ${c} $1 $? \"$d\" '$e'", &["a ?$b ?${c} ?$1 ?$? ?\"$d\" $e"]),
        ("a $'\\'' $'\\xff' $'\\0'", &["a ?$'\\'' ?$'\\xff' ?$'\\0'"]),
        ("a#b #c", &["a#b"]),
        ("é ü", &["é ü"]),
    ]);
}

#[test]
fn substitutions_are_read_and_make_words_open() {
    reads(&[
        ("a $(b)", &["b", "a ?$(b)"]),
        ("a \"x$(b 'c)')\"", &["b c)", "a ?\"x$(b 'c)')\""]),
        ("a `b \\`c\\``", &["c", "b ?`c`", "a ?`b \\`c\\``"]),
        ("a <(b) >(c)", &["b", "c", "a ?<(b) ?>(c)"]),
        ("a ${x:-$(b)} ${y#`c`}", &["b", "c", "a ?${x:-$(b)} ?${y#`c`}"]),
        ("a $((1 + $(b)))", &["b", "a ?$((1 + $(b)))"]),
        ("a $(case x in y) b;; esac)", &["b", "a ?$(case x in y) b;; esac)"]),
        ("a $( (b) )", &["b", "a ?$( (b) )"]),
        ("$(a) b", &["a", "?$(a) b"]),
    ]);
    let parsed = parse("a; b $(c)").expect("clear");
    assert!(parsed.substitutes && !parsed.defines);
    assert!(parse("a() { b; }").expect("clear").defines);
    assert!(!parse("a '$(b)'").expect("clear").substitutes);
}

#[test]
fn redirections_and_variables() {
    reads(&[
        ("a > b 2>> c < d", &["a >b >c <d"]),
        ("a 2>&1 >&- <&3 3>&1-", &["a &1 &- &3 &1-"]),
        ("a &> b; c &>> d; e >& f; g >| h; i <> j", &["a >b", "c >d", "e >f", "g >h", "i >j"]),
        (">&-b c", &["b c &-"]),
        ("2>x a; a2>x", &["a >x", "a2 >x"]),
        ("a <<< b", &["a <<b"]),
        ("{ a; } > b; (c) 2> d", &["a", ">b", "c", ">d"]),
        ("while a; do b; done < c", &["a", "b", "<c"]),
        ("A=1 B=$(x) c", &["x", "A= B= c"]),
        ("A=(1 $(x) 3) B+=2 C[1]=2", &["x", "A= B= C="]),
        ("a B=1", &["a B=1"]),
        ("1A=2; 'A'=2", &["1A=2", "A=2"]),
    ]);
}

#[test]
fn here_documents() {
    reads(&[
        ("a <<E; b\n$(c) `d`\nE\ne", &["a <<E", "b", "c", "d", "e"]),
        ("a <<'E'\n$(c)\nE\nb", &["a <<E", "b"]),
        ("a <<-E\n\tx\n\tE\nb", &["a <<E", "b"]),
        ("a <<E <<F\nx\nE\ny\nF\nb", &["a <<E <<F", "b"]),
        ("a <<E\n\\$(c)\nE", &["a <<E"]),
        ("a $(b <<E\nx\nE\n)", &["b <<E", "a ?$(b <<E\nx\nE\n)"]),
    ]);
    for line in ["a <<E", "a <<E\nx", "a <<E\nEO\\\nF\nE", "a $(b <<E)\nE", "a <<$x\n$x", "a <<E $(b\n)\nE"] {
        assert!(parse(line).is_err(), "{line:?}");
    }
}

#[test]
fn starters() {
    reads(&[
        ("sh -c 'a; b'", &["via sh -c a; b", "a", "b"]),
        ("bash -euc 'a' x y", &["via bash -euc a x y", "a"]),
        ("zsh -c a; /bin/sh -c b", &["zsh -c a", "a", "/bin/sh -c b", "b"]),
        ("sh; sh x; sh -c \"$x\"", &["sh", "?sh", "sh x", "sh -c ?\"$x\"", "?sh"]),
        ("eval a 'b; c'", &["eval a b; c", "a b", "c"]),
        ("eval $x", &["eval ?$x", "?eval"]),
        ("env -i -u X A=1 b c", &["env -i -u X A=1 b c", "b c"]),
        ("env -S 'a b'", &["env -S a b", "?env"]),
        ("sudo -u bob -n a", &["sudo -u bob -n a", "a"]),
        (
            "nohup nice -n 5 timeout -k 1 5 a",
            &["via nohup nice -n 5 timeout -k 1 5 a", "via nice -n 5 timeout -k 1 5 a", "via timeout -k 1 5 a", "a"],
        ),
        ("command a; command -v b; builtin c", &["via command a", "a", "command -v b", "via builtin c", "c"]),
        ("xargs -0 a b", &["xargs -0 a b", "a b ?…"]),
        ("xargs", &["xargs", "echo ?…"]),
        ("xargs -I X a X", &["xargs -I X a X", "?xargs"]),
        ("find . -exec a {} \\; -o -ok b {}x +", &["find . -exec a {} ; -o -ok b {}x +", "a ?{}", "b ?{}x"]),
        ("trap 'a b' EXIT; trap - EXIT", &["trap a b EXIT", "a b", "trap - EXIT"]),
        ("exec a; su -c 'b' root", &["exec a", "a", "su -c b root", "b"]),
        ("watch a", &["watch a", "?watch"]),
    ]);
}

#[test]
fn what_is_not_understood_is_said() {
    let lines = [
        "a 'b",
        "a \"b",
        "a `b",
        "a $(b",
        "a ${b",
        "a $((1",
        "((1",
        "a \\",
        "a &&",
        "| a",
        "a | ",
        "a ;; b",
        "a )",
        "(a",
        "{ a; ",
        "a (b)",
        "f() a",
        "if a; fi",
        "for x in a; b; done",
        "case a in b",
        "then a",
        "a $[1]",
        "a \"$\\\n(b)\"",
        "((a) b)",
        "$((a) b)",
        "\"${a-'}\"",
        "[[ a",
        "coproc a",
        "a=(b)c d",
        "th\\\nen a",
        "a; ; b",
        "a <",
        "a > | b",
    ];
    for line in lines {
        assert!(parse(line).is_err(), "{line:?} is {:?}", parse(line));
    }
}

#[test]
fn limits_are_kept() {
    let nested = |n: usize| format!("{}a{}", "( ".repeat(n), " )".repeat(n));
    assert!(parse(&nested(COMMAND_DEPTH)).is_ok());
    assert!(parse(&nested(COMMAND_DEPTH + 1)).is_err());
    assert!(parse(&"a;".repeat(COMMAND_PARTS)).is_ok());
    assert!(parse(&"a;".repeat(COMMAND_PARTS + 1)).is_err());
    assert!(parse(&"a".repeat(COMMAND_CHARS)).is_ok());
    assert!(parse(&"a".repeat(COMMAND_CHARS + 1)).is_err());
    assert!(parse("a\0b").is_err());
}

#[test]
fn hidden_text_is_shown() {
    assert_eq!(visible("ls -l\n\tcafé 日本"), "ls -l\n\tcafé 日本");
    assert_eq!(
        visible("a\u{1b}[2Kb\u{202e}c\u{200b}d\u{a0}e\rf\u{e0041}"),
        "a⟨U+001B⟩[2Kb⟨U+202E⟩c⟨U+200B⟩d⟨U+00A0⟩e⟨U+000D⟩f⟨U+E0041⟩"
    );
    let blanks = " ".repeat(PADDING_CHARS);
    assert_eq!(visible(&format!("a{blanks}b")), format!("a{blanks}b"));
    assert_eq!(visible(&format!("a {blanks}b\u{7f}")), format!("a⟨{} blanks⟩b⟨U+007F⟩", PADDING_CHARS + 1));
    assert_eq!(visible(&format!("a{}b", "\n".repeat(100))), "a⟨100 blanks and line ends⟩b");
    assert!(hides("a\u{feff}") && hides(&"\n".repeat(100)) && !hides("a b\n"));
}

#[test]
fn what_to_look_at_is_said() {
    assert_eq!(warnings("ls -l 2>&1 >/dev/null"), Vec::<String>::new());
    assert_eq!(warnings("make > out 2>> log < in > out"), ["It writes to out, log."]);
    assert_eq!(
        warnings("ls 'a\u{202e}\u{200b}"),
        [
            "It holds characters that are not shown as they are: U+200B, U+202E.",
            "What it runs cannot be told: a quote does not end.",
        ]
    );
    let far = format!("ls{}; rm x", " ".repeat(500));
    assert_eq!(warnings(&far), ["It holds a long run of blanks; look at what comes after it."]);
    let long = format!("echo {}", "a".repeat(3_000));
    assert_eq!(warnings(&long), ["It is long: 3005 characters in 1 lines; read it to its end."]);
}

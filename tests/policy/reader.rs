//! The command reader: what it accepts, what it refuses and why, its limits, and that bash and sh read the same words.

use super::number;
use super::random::Random;
use gemini_a2a::limits::{COMMAND_CHARS, COMMAND_PARTS, PADDING_CHARS};
use gemini_a2a::task::command_line::{Joint, Simple, has_hidden_text, parse, programs, visible, warnings};
use std::process::{Command, Stdio};

/// The commands of a line as text: how the command is joined, then its words with `|` between them and `*` before a pattern.
#[track_caller]
fn read(line: &str) -> Vec<String> {
    let commands = parse(line).unwrap_or_else(|why| panic!("{line:?} is unclear: {}", why.0));
    commands.iter().map(shown).collect()
}

fn shown(simple: &Simple) -> String {
    let joint = match simple.joint {
        Joint::Then => "",
        Joint::And => "&&",
        Joint::Or => "||",
        Joint::Pipe => "|",
    };
    let mut words: Vec<String> = Vec::new();
    for word in &simple.words {
        words.push(format!("{}{}", if word.is_pattern { "*" } else { "" }, word.text));
    }
    words.extend(simple.reads.iter().map(|file| format!("<{file}")));
    words.extend(simple.writes.iter().map(|file| format!(">{file}")));
    format!("{joint}{}", words.join("|"))
}

#[test]
fn command_lines_are_parsed() {
    let table: &[(&str, &[&str])] = &[
        ("a", &["a"]),
        ("  a\tb  ", &["a|b"]),
        ("a;b&&c||d|e\nf;", &["a", "b", "&&c", "||d", "|e", "f"]),
        ("\n\na\n\n b &&\n\n c |\n d\n", &["a", "b", "&&c", "|d"]),
        ("'a b'c\"d e\"\\ f", &["a bcd e f"]),
        ("a '' \"\" ''x", &["a|||x"]),
        ("a \"\\d\\$\\\"\\\\\\`\\s\" \"x$\"", &["a|\\d$\"\\`\\s|x$"]),
        ("a \\( \\; \\. \\* \\~", &["a|(|;|.|*|~"]),
        ("a 'b\nc'", &["a|b\nc"]),
        ("a HEAD~1 HEAD^ HEAD@{2} stash@{0}~1 a~b", &["a|HEAD~1|HEAD^|HEAD@{2}|stash@{0}~1|a~b"]),
        ("a b#c --x=y %h +y , : @ ] a]", &["a|b#c|--x=y|%h|+y|,|:|@|]|a]"]),
        ("a src/*.rs x? y[ab] --include=*.rs ./*", &["a|*src/*.rs|*x?|*y[ab]|*--include=*.rs|*./*"]),
        ("a '*' \"?\" \\[", &["a|*|?|["]),
        ("[ -f x ]", &["[|-f|x|]"]),
        ("a 2>&1 >&2 1>&2 2>/dev/null >/dev/null &>/dev/null </dev/null", &["a"]),
        ("a>b 2> c >> d <e", &["a|<e|>b|>c|>d"]),
        ("> b a; a2>b", &["a|>b", "a2|>b"]),
        ("a 2>&1|b", &["a", "|b"]),
        ("größe é", &["größe|é"]),
    ];
    for (line, expected) in table {
        assert_eq!(read(line), *expected, "{line:?}");
    }
    assert_eq!(programs("b x | a; b && ./c"), ["b", "a", "./c"]);
    assert_eq!(programs("for x in 1; do b; done"), ["bash"]);
}

#[test]
fn an_unclear_line_is_refused_with_its_reason() {
    #[rustfmt::skip]
    let table: &[(&str, &[&str])] = &[
        ("nothing", &["", " ", "\n", "\t\n "]),
        ("a command is missing", &["a &&", "| a", "a | ", "a ;; b", "a; ; b", "> a", "a && ; b", "a\n; b", "; a", "2>&1"]),
        ("expands", &["a $b", "$a", "a ${b}", "a $(b)", "a `b`", "a \"$b\"", "a \"`b`\"", "a $((1))", "a $'b'", "a $\"b\"", "a $", "a \"$ \""]),
        ("quote does not end", &["a 'b", "a \"b", "a \"b\\\"", "'"]),
        ("backslash", &["a \\b", "a \\", "a\\\nb", "a \"b\\\nc\"", "a \"\\!\"", "l\\s"]),
        ("sets a variable", &["A=1", "A=1 b", "A+=1 b", "'A'=1", "a[0]=1 b", "=x"]),
        ("compound", &["if a; then b; fi", "for x in a; do b; done", "while a; do b; done", "case a in b) c;; esac", "time a", "'[[' a",
            "select x", "until a", "function f", "coproc a", "a; then b", "a | time b", "'if' a"]),
        ("not quoted", &["! a", "a !", "{ a; }", "a {b,c}", "a {1..3}", "a {}", "a ~", "a ~/b", "a b=~", "a b:~c", "!!", "a }", "{PATH}>/dev/null", "a @{b,c}", "a @{}"]),
        ("subshell", &["(a)", "a (b)", "f() { a; }", "a )", "((1))"]),
        ("background", &["a &", "a & b", "a&b"]),
        ("comment", &["# a", "a # b", "a;#b"]),
        ("wildcard", &["[[ a ]]", "a *", "a *.rs", "a -*", "a -n*", "a .*", "a src/.*", "a 'x'*", "a x\\*y*", "a [ab]", "a ?", "a --x=a/*", "a b[^c]"]),
        ("not plain", &["l?", "''", "src/* a", "a > b*", "a > ''", "a >", "a >; b", "a <", "a > | b", "a <(b)", "a > >(b)"]),
        ("redirects", &["a <<E\nE", "a <<< b", "a <> b", "a >| b", "a &> b", "a &>> b", "a >& b", "a 3>b", "a 3>&1", "a >&-", "a <&1", "a 2>&3",
            "a >&2x", "a >&2</dev/null", "a >& 2", "a 12>b", "a 1<b"]),
        ("|&", &["a |& b"]),
        ("not shown", &["a\u{1b}[2K", "a\r\nb", "a\u{202e}b", "a\u{a0}b", "a\0b", "a\u{200b}"]),
    ];
    for (why, lines) in table {
        for line in *lines {
            match parse(line) {
                Ok(commands) => panic!("{line:?} is {commands:?}"),
                Err(unclear) => assert!(unclear.0.contains(why), "{line:?}: {}, not {why}", unclear.0),
            }
        }
    }
}

#[test]
fn length_and_command_limits_apply() {
    assert!(parse(&"a;".repeat(COMMAND_PARTS)).is_ok());
    assert!(parse(&"a;".repeat(COMMAND_PARTS + 1)).is_err());
    assert!(parse(&"a".repeat(COMMAND_CHARS)).is_ok());
    assert!(parse(&"a".repeat(COMMAND_CHARS + 1)).is_err());
    let blanks = " ".repeat(PADDING_CHARS);
    assert!(parse(&format!("a{blanks}b")).is_ok());
    assert!(parse(&format!("a {blanks}b")).is_err());
}

#[test]
fn hidden_characters_are_made_visible() {
    assert_eq!(visible("ls -l\n\tcafé 日本"), "ls -l\n\tcafé 日本");
    assert_eq!(
        visible("a\u{1b}[2Kb\u{202e}c\u{200b}d\u{a0}e\rf\u{e0041}"),
        "a⟨U+001B⟩[2Kb⟨U+202E⟩c⟨U+200B⟩d⟨U+00A0⟩e⟨U+000D⟩f⟨U+E0041⟩"
    );
    let blanks = " ".repeat(PADDING_CHARS);
    assert_eq!(visible(&format!("a{blanks}b")), format!("a{blanks}b"));
    assert_eq!(visible(&format!("a {blanks}b\u{7f}")), format!("a⟨{} blanks⟩b⟨U+007F⟩", PADDING_CHARS + 1));
    assert_eq!(visible(&format!("a{}b", "\n".repeat(100))), "a⟨100 blanks and line ends⟩b");
    assert!(has_hidden_text("a\u{feff}") && has_hidden_text(&"\n".repeat(100)) && !has_hidden_text("a b\n"));
}

#[test]
fn warnings_name_what_to_check() {
    assert_eq!(warnings("ls -l 2>&1 >/dev/null"), Vec::<String>::new());
    assert_eq!(warnings("make > out 2>> log < in > out"), ["It writes to out, log."]);
    assert_eq!(warnings("make 'a"), ["It could not be read: a quote does not end."]);
    let hidden = "It holds characters that are not shown as they are: U+200B, U+202E.";
    assert_eq!(warnings("ls 'a\u{202e}\u{200b}")[0], hidden);
    let far = format!("ls{}; rm x", " ".repeat(500));
    assert_eq!(warnings(&far)[0], "It holds a long run of blanks; look at what comes after it.");
    let long = format!("echo {}", "a".repeat(3_000));
    assert_eq!(warnings(&long), ["It is long: 3005 characters in 1 lines; read it to its end."]);
}

#[test]
fn parsing_takes_linear_time() {
    let mut random = Random::new(0x5eed);
    for _ in 0..40_000 {
        let line = super::properties::line(&mut random);
        let _ = parse(&line);
        let _ = warnings(&line);
        let _ = visible(&line);
        let noise: String = (0..random.below(30)).filter_map(|_| char::from_u32(random.below(0x300) as u32)).collect();
        let _ = parse(&noise);
    }
    // Each of these is about as long as a line may be, so a reader with quadratic time would not finish.
    for unit in
        ["$(", "`", "\"", "'", "a ", "a;", "\\", "@{a", "a*", "[", "2>&1 ", ">a ", "a|", "~", "-a ", "{", "\"\\\\\""]
    {
        let line = format!("ls {}", unit.repeat(60_000 / unit.len()));
        let _ = parse(&line);
        let _ = warnings(&line);
        let _ = super::plain().run(&line);
    }
}

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "aa", "bb", "cc", "'a'a", "\"bb\"", "c\\c", "x", "src/*.rs", "x?", "--in=*.c", "-n", "-la", "HEAD~1", "@{1}", "a@{u}", "'q r'", "\"s t\"",
    "''", "\"\\d$\"", "\"\\\"\"", "\\;", "\\(", "\\~", "'*'", "'$x'", "é", "#", "a#b", "=", "a=b", "~", "^", "%", "!", "]", "[", "[z", "{", "}",
    ",", ":", "*", "?", ".", "/", "1", "2", "12", "\\", "'", "\"", "$", "`", " ", " ", " ", " ", " ", " ", "\t", "\n", ";", "|", "&&", "||", "&",
    "(", ")", "2>&1", ">&2", " 2>/dev/null", ">/dev/null", "</dev/null", ">out", ">> out", "<in", ">", "<", "\\ ", "\\\n", "if", "time", "in",
];

/// Commands that every shell knows as functions, which write their words to a file. All of them succeed. The trap waits for commands in the
/// background: in `aa&>FILE` dash reads `&` and `>FILE`.
const PRELUDE: &str = "trap wait EXIT; aa() { w aa \"$@\"; }; bb() { w bb \"$@\"; }; cc() { w cc \"$@\"; }
    w() { printf '%s\\001' \"$@\" END >> \"$LOG\"; }\n";

/// For every line that the reader accepts, the shells run the same commands with the same words.
#[test]
fn bash_and_sh_read_the_same_words() {
    let dir = std::env::temp_dir().join(format!("gemini-a2a-reader-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory of our own");
    std::fs::write(dir.join("in"), "").expect("our own directory");
    let log = dir.join("log");
    let mut random = Random::new(number("POLICY_SEED", 0xba5e) as u64);
    let (mut compared, mut words) = (0, 0);
    while compared < number("POLICY_LINES", 300) {
        let len = 1 + random.below(9);
        let line: String = (0..len).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let Ok(commands) = parse(&line) else { continue };
        // A file that cannot be opened keeps its command from running.
        let opens = |simple: &Simple| {
            simple.reads.iter().all(|file| file == "in") && simple.writes.iter().all(|file| file == "out")
        };
        if !commands.iter().all(|simple| ["aa", "bb", "cc"].contains(&simple.program()) && opens(simple)) {
            continue;
        }
        let expected = expected(&commands);
        compared += 1;
        words += expected.iter().map(Vec::len).sum::<usize>();
        for shell in ["bash", "dash", "sh"] {
            let _ = std::fs::remove_file(&log);
            let mut command = Command::new(shell);
            command
                .args(["-c", &format!("{PRELUDE}{line}")])
                .current_dir(&dir)
                .env_clear()
                .env("PATH", "/usr/bin:/bin");
            command.env("LOG", &log).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if command.status().is_err() {
                continue;
            }
            let text = String::from_utf8(std::fs::read(&log).unwrap_or_default()).expect("UTF-8");
            let run = text.split_terminator("END\u{1}").map(|argv| argv.split_terminator('\u{1}').collect());
            let mut run: Vec<Vec<&str>> = run.collect();
            run.sort();
            assert_eq!(run, expected, "{line:?} in {shell}");
        }
    }
    assert!(words > compared, "{words} words in {compared} lines");
    std::fs::remove_dir_all(&dir).expect("our own directory");
}

/// The words of the commands that run if every one of them succeeds, sorted, because those of a pipe run at the same time.
fn expected(commands: &[Simple]) -> Vec<Vec<&str>> {
    let mut runs = true;
    let mut expected = Vec::new();
    for simple in commands {
        runs = match simple.joint {
            Joint::Then | Joint::And => true,
            Joint::Or => false,
            Joint::Pipe => runs,
        };
        if runs {
            expected.push(simple.words.iter().map(|word| word.text.as_str()).collect());
        }
    }
    expected.sort();
    expected
}

//! Tests of `grep_search`.

use super::*;
use crate::limits::Limits;
use crate::task::spec::{Display, Ending};
use crate::tool::tests::{Scratch, ran, run_of, with_ctx};
use std::os::unix::fs::symlink;

fn grep_with(limits: &Limits, scratch: &Scratch, args: Value) -> Result<(String, String), CallError> {
    let run = run_of(scratch, "grep_search", args);
    let end = with_ctx(scratch, limits, |ctx| ran(GrepSearch, &run, ctx));
    match end {
        RunEnd::Ended(Ending::Success { output, display: Display::Summary { text } }) => {
            Ok((output.to_string(), text.to_string()))
        }
        RunEnd::Ended(Ending::Error { error }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn grep(scratch: &Scratch, args: Value) -> String {
    let found = grep_with(&Limits::default(), scratch, args);
    found.expect("it can be searched").0
}

/// The lines found, as `file:number`.
fn places(scratch: &Scratch, args: Value) -> Vec<String> {
    let mut file = String::new();
    let mut places = Vec::new();
    for line in grep(scratch, args).lines() {
        if let Some(name) = line.strip_prefix("File: ") {
            file = name.into();
        } else if let Some((number, _)) = line.strip_prefix('L').and_then(|l| l.split_once(": "))
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            places.push(format!("{file}:{number}"));
        }
    }
    places
}

#[test]
fn matches_are_shown_by_file_in_the_order_of_paths() {
    let scratch = Scratch::new();
    scratch.put("b.txt", "no\nHello b\nhello again\r\n");
    scratch.put("a/x.txt", "hello x");
    scratch.put("a.txt", "oh, hello");
    assert_eq!(
        grep_with(&Limits::default(), &scratch, json!({"pattern": "hel+o", "context": 0})),
        Ok((
            "Found 4 matches for pattern \"hel+o\" in path \".\":\n---\n\
             File: a/x.txt\nL1: hello x\n---\n\
             File: a.txt\nL1: oh, hello\n---\n\
             File: b.txt\nL2: Hello b\nL3: hello again\n---"
                .into(),
            "Found 4 matches".into()
        ))
    );
    assert_eq!(
        grep(&scratch, json!({"pattern": "hello", "names_only": true})),
        "Found 3 files with matches for pattern \"hello\" in path \".\":\na/x.txt\na.txt\nb.txt"
    );
    assert_eq!(
        grep(&scratch, json!({"pattern": "bye", "dir_path": "a", "include_pattern": "*.md"})),
        "No matches found for pattern \"bye\" in path \"a\" (files: \"*.md\")."
    );
}

#[test]
fn arguments_choose_what_matches() {
    let scratch = Scratch::new();
    scratch.put("src/a.rs", "fn main() {\n    a.b();\n}\n");
    scratch.put("src/b.ts", "A.B\naxb skip\naxb\n");
    scratch.put("c.md", "fn Main\n");
    let table: [(Value, &[&str]); 13] = [
        (json!({"pattern": "fn main"}), &["c.md:1", "src/a.rs:1"]),
        (json!({"pattern": "fn main", "case_sensitive": true}), &["src/a.rs:1"]),
        (json!({"pattern": "fn main() {", "fixed_strings": true}), &["src/a.rs:1"]),
        (json!({"pattern": r"fn main\(\) {"}), &["src/a.rs:1"]),
        (json!({"pattern": "a.b"}), &["src/a.rs:2", "src/b.ts:1", "src/b.ts:2", "src/b.ts:3"]),
        (json!({"pattern": "a.b", "fixed_strings": true}), &["src/a.rs:2", "src/b.ts:1"]),
        (json!({"pattern": "a.b", "exclude_pattern": "SKIP"}), &["src/a.rs:2", "src/b.ts:1", "src/b.ts:3"]),
        (json!({"pattern": "a.b", "include_pattern": "*.{ts,md}"}), &["src/b.ts:1", "src/b.ts:2", "src/b.ts:3"]),
        (json!({"pattern": "a.b", "include_pattern": "src/*.rs"}), &["src/a.rs:2"]),
        (json!({"pattern": "a.b", "include_pattern": "!*.ts"}), &["src/a.rs:2"]),
        (json!({"pattern": "a.b", "dir_path": "src", "include_pattern": "/a.rs"}), &["src/a.rs:2"]),
        (json!({"pattern": "a.b", "max_matches_per_file": 1}), &["src/a.rs:2", "src/b.ts:1"]),
        (json!({"pattern": "a.b", "dir_path": "src/b.ts"}), &["src/b.ts:1", "src/b.ts:2", "src/b.ts:3"]),
    ];
    for (args, expected) in table {
        assert_eq!(places(&scratch, args.clone()), expected, "{args}");
    }
}

#[test]
fn context_is_shown_where_asked_for_and_around_few_matches() {
    let scratch = Scratch::new();
    let numbered: String = (1..=200).map(|n| format!("line {n}\n")).collect();
    scratch.put("a", &numbered);
    let shown = |args: Value| -> Vec<String> {
        let text = grep(&scratch, args);
        let lines = text.lines().filter(|line| line.starts_with('L'));
        lines.map(String::from).collect()
    };
    assert_eq!(
        shown(json!({"pattern": "line (5|7|8|200)$", "before": 1, "after": 2})),
        [
            "L4- line 4",
            "L5: line 5",
            "L6- line 6",
            "L7: line 7",
            "L8: line 8",
            "L9- line 9",
            "L10- line 10",
            "L199- line 199",
            "L200: line 200",
        ]
    );
    assert_eq!(shown(json!({"pattern": "line (1|2)$", "context": 1, "after": 0})), ["L1: line 1", "L2: line 2"]);
    let one = shown(json!({"pattern": "line 100$"}));
    assert_eq!((one.len(), one[0].as_str(), one[50].as_str()), (101, "L50- line 50", "L100: line 100"));
    let three = shown(json!({"pattern": "line (1|100|101)$"}));
    assert_eq!(three.len(), 16 + 32);
    assert_eq!(shown(json!({"pattern": "line (1|2|3|100)$"})).len(), 4);
    assert_eq!(shown(json!({"pattern": "line 100$", "context": 0})).len(), 1);
}

#[test]
fn only_the_first_matches_are_shown() {
    let scratch = Scratch::new();
    for dir in 0..40 {
        for file in 0..20 {
            scratch.put(&format!("d{dir:02}/f{file:02}"), "match one\nother\nmatch two\n");
        }
    }
    for total in [1, 7, 100, 1599] {
        let found = grep_with(&Limits::default(), &scratch, json!({"pattern": "match", "total_max_matches": total}));
        let (output, display) = found.expect("it can be searched");
        assert_eq!(display, format!("Found {total} match{} (limited)", if total == 1 { "" } else { "es" }));
        let expected: Vec<String> = (0..40)
            .flat_map(|dir| (0..20).map(move |file| format!("File: d{dir:02}/f{file:02}")))
            .take(usize::div_ceil(total, 2))
            .collect();
        let files: Vec<&str> = output.lines().filter(|line| line.starts_with("File: ")).collect();
        assert_eq!(files, expected);
        assert_eq!(output.lines().filter(|line| line.contains(": match")).count(), total);
    }
    let all = grep_with(&Limits::default(), &scratch, json!({"pattern": "match", "total_max_matches": 1600}));
    assert_eq!(all.map(|found| found.1), Ok("Found 1600 matches".into()));
    let names = json!({"pattern": "match", "names_only": true, "total_max_matches": 3});
    assert!(grep(&scratch, names).contains("d00/f00\nd00/f01\nd00/f02\nThere may be more"));
}

#[test]
fn binary_and_generated_files_are_left_out() {
    let scratch = Scratch::new();
    for name in ["a.rs", "x.log", "dist/a", "build/a", "node_modules/a", ".git/a", ".idea/a", "out/a", ".hidden"] {
        scratch.put(name, "needle");
    }
    scratch.put(".gitignore", "out\n");
    scratch.put("binary", b"needle\0");
    scratch.put("latin", b"needle \xe9\nneedle\n");
    symlink("/etc/passwd", scratch.path().join("passwd")).expect("links can be made");
    assert_eq!(places(&scratch, json!({"pattern": "needle|root"})), [".hidden:1", "a.rs:1", "latin:2"]);
    assert_eq!(
        places(&scratch, json!({"pattern": "needle|root", "no_ignore": true})),
        [
            ".hidden:1",
            ".idea/a:1",
            "a.rs:1",
            "build/a:1",
            "dist/a:1",
            "latin:2",
            "node_modules/a:1",
            "out/a:1",
            "x.log:1"
        ]
    );
    // What is named is searched, unless it is hidden.
    assert_eq!(places(&scratch, json!({"pattern": "needle", "dir_path": "x.log"})), ["x.log:1"]);
    assert_eq!(places(&scratch, json!({"pattern": "needle", "dir_path": "dist"})), ["dist/a:1"]);
    for dir in ["out", "out/a"] {
        let hidden = grep(&scratch, json!({"pattern": "needle", "dir_path": dir}));
        assert!(hidden.ends_with("it is hidden by ignore files. Set no_ignore to search it all the same."), "{hidden}");
    }
}

#[test]
fn limits_are_applied_and_reported() {
    let scratch = Scratch::new();
    scratch.put("a", format!("needle {}\n", "x".repeat(30)));
    scratch.put("big", vec![b'x'; 101]);
    scratch.put("c/d/e", "needle\n");
    let small = Limits { line_chars: 10, file_bytes: 100, search_depth: 1, ..Limits::default() };
    assert_eq!(
        grep_with(&small, &scratch, json!({"pattern": "needle"})).map(|found| found.0),
        Ok("Found 1 match for pattern \"needle\" in path \".\":\n---\nFile: a\nL1: needle xxx... [cut]\n---\n\
            1 files larger than 0 MiB were not searched.\n1 folders could not be looked into."
            .into())
    );
    let brief = Limits { search_chars: 5, ..Limits::default() };
    let cut = grep_with(&brief, &scratch, json!({"pattern": "needle"})).expect("it can be searched");
    assert!(cut.0.ends_with("---\n[1 more files are left out: the answer is long enough.]"), "{}", cut.0);
    let few = Limits { search_entries: 2, ..Limits::default() };
    let cut = grep_with(&few, &scratch, json!({"pattern": "nothing"})).expect("it can be searched");
    assert!(cut.0.contains("stopped after 2 files and folders"), "{}", cut.0);
    let hurried = Limits { search_ms: 0, ..Limits::default() };
    let late = grep_with(&hurried, &scratch, json!({"pattern": "needle"}));
    assert_eq!(
        late,
        Err(ErrorKind::GrepExecutionError
            .error("Nothing was found. The search was stopped after 0 s, so more may be found: narrow it down."))
    );
}

#[test]
fn errors_have_the_kind_of_the_failure() {
    let scratch = Scratch::new();
    symlink("/etc", scratch.path().join("etc")).expect("links can be made");
    let kind = |args| grep_with(&Limits::default(), &scratch, args).map_err(|error| error.kind);
    let table = [
        (json!({"pattern": "a("}), ErrorKind::InvalidToolParams),
        (json!({"pattern": "(?=a)"}), ErrorKind::InvalidToolParams),
        (json!({"pattern": "a", "exclude_pattern": "["}), ErrorKind::InvalidToolParams),
        (json!({"pattern": "a", "include_pattern": "\\"}), ErrorKind::InvalidToolParams),
        (json!({"pattern": "a", "dir_path": "nope"}), ErrorKind::FileNotFound),
        (json!({"pattern": "a", "dir_path": "etc"}), ErrorKind::PathNotInWorkspace),
        (json!({"pattern": "a", "dir_path": "../x"}), ErrorKind::PathNotInWorkspace),
    ];
    for (args, expected) in table {
        assert_eq!(kind(args.clone()), Err(expected), "{args}");
    }
}

#[test]
fn a_cancelled_search_ends() {
    let scratch = Scratch::new();
    scratch.put("a", "needle");
    let run = run_of(&scratch, "grep_search", json!({"pattern": "needle"}));
    let end = with_ctx(&scratch, &Limits::default(), |ctx| {
        ctx.cancel.set();
        ran(GrepSearch, &run, ctx)
    });
    assert_eq!(end, search_end(None));
}

#[test]
fn braces_are_text_unless_they_are_a_repetition() {
    let table = [
        ("fn x {", "fn x \\{"),
        ("a{2,3}b{", "a{2,3}b\\{"),
        ("a\\{b{4}c{5,}", "a\\{b{4}c{5,}"),
        ("{}", "\\{\\}"),
        ("${name}", "$\\{name\\}"),
    ];
    for (pattern, expected) in table {
        assert_eq!(braces_escaped(pattern), expected);
    }
}

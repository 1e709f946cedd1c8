//! Tests of the tool as a whole: what is planned, what is written, what is refused.

use super::*;
use crate::base::test_random::Random;
use crate::limits::Limits;
use crate::task::spec::{Base, Display, Ending, Question};
use crate::tool::files::text::Encoding;
use crate::tool::tests::{Scratch, ran, run_of, with_ctx};
use std::process::{Command, Stdio};

fn args(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": path, "instruction": "why", "old_string": old, "new_string": new})
}

fn all(path: &str, old: &str, new: &str) -> Value {
    let mut args = args(path, old, new);
    args["allow_multiple"] = json!(true);
    args
}

fn plan(scratch: &Scratch, args: &Value) -> Result<Plan, CallError> {
    with_ctx(scratch, &Limits::default(), |ctx| Replace.prepare(args, ctx))
}

fn run(scratch: &Scratch, run: &Run) -> RunEnd {
    with_ctx(scratch, &Limits::default(), |ctx| ran(Replace, run, ctx))
}

/// Prepares and runs a call, as the task would. Returns the text for the model.
fn replace(scratch: &Scratch, args: Value) -> Result<String, CallError> {
    let base = plan(scratch, &args)?.base;
    let order = Run { base, ..run_of(scratch, "replace", args) };
    match run(scratch, &order) {
        RunEnd::Ended(Ending::Success { output, .. }) => Ok(output.to_string()),
        RunEnd::Ended(Ending::Error { error }) => Err(error),
        other => panic!("{other:?}"),
    }
}

fn kind(scratch: &Scratch, args: Value) -> ErrorKind {
    replace(scratch, args).expect_err("it fails").kind
}

fn bytes(scratch: &Scratch, name: &str) -> Vec<u8> {
    std::fs::read(scratch.path().join(name)).expect("it is there")
}

#[test]
fn a_plan_has_the_whole_new_file_and_changes_nothing() {
    let scratch = Scratch::new();
    let file = scratch.put("src/a.rs", "one\ntwo\nthree\n");
    let real = file.display().to_string();
    let rule = "=".repeat(67);
    let found = plan(&scratch, &args("src/a.rs", "two\n", "2\nII\n")).expect("a plan");
    let sha256 = found.base.clone().and_then(|base| base.sha256);
    assert_eq!(sha256.as_ref().map(String::len), Some(64));
    assert_eq!(
        found,
        Plan {
            title: "src/a.rs: two => 2…".into(),
            question: Question::Edit {
                title: "Confirm Edit: src/a.rs".into(),
                file_name: "a.rs".into(),
                file_path: real.clone(),
                diff: format!(
                    "Index: a.rs\n{rule}\n--- a.rs\tCurrent\n+++ a.rs\tProposed\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+II\n three\n"
                )
                .into(),
                old: Some("one\ntwo\nthree\n".into()),
                new: "one\n2\nII\nthree\n".into(),
            },
            base: Some(Base { sha256, change: Some(crate::task::log::blob::sha256(b"-two\n+2\n+II\n")) }),
        }
    );
    assert_eq!(bytes(&scratch, "src/a.rs"), b"one\ntwo\nthree\n");
}

#[test]
fn the_result_shows_the_new_text_with_its_surroundings() {
    let scratch = Scratch::new();
    let file = scratch.put("a", "x = 1\ny = 1\n");
    let real = file.display();
    assert_eq!(
        replace(&scratch, args("a", "y = 1", "y = 2")),
        Ok(format!("Modified {real} (1 replacement). What changed:\n@@ -1,2 +1,2 @@\n x = 1\n-y = 1\n+y = 2\n"))
    );
    let end = run(&scratch, &run_of(&scratch, "replace", all("a", " = ", ": $& ")));
    let RunEnd::Ended(Ending::Success { output, display }) = end else {
        panic!("{end:?}");
    };
    assert!(output.as_str().starts_with(&format!("Modified {real} (2 replacements). What changed:\n")));
    let Display::Diff { new, added, removed, .. } = display else {
        panic!("{display:?}");
    };
    assert_eq!((new.as_str(), added, removed), ("x: $& 1\ny: $& 2\n", 2, 2));
    assert_eq!(bytes(&scratch, "a"), b"x: $& 1\ny: $& 2\n");
}

#[test]
fn nearly_equal_text_is_replaced_and_reported() {
    let scratch = Scratch::new();
    let file = scratch.put("a", "head\n  let colour = paint(canvas, brush);\n  done();\nend\n");
    let old = "let color = paint(canvas, brush);\ndone();";
    let output = replace(&scratch, args("a", old, "paint();\ndone();")).expect("it is near");
    let expected = format!(
        "Modified {} (1 replacement). old_string was not there as given; what comes nearest was replaced, in lines 2-3. What changed:\n",
        file.display()
    );
    assert!(output.as_str().starts_with(&expected), "{output}");
    assert_eq!(bytes(&scratch, "a"), b"head\n  paint();\n  done();\nend\n");
}

#[test]
fn line_ends_and_the_end_of_the_file_stay_as_they_are() {
    let table: &[(&str, &str, &str, &str)] = &[
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\n", "a\r\n", "x\n", "x\r\nb\r\n"),
        ("a\r\nb\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\nc\r\n"),
        ("a\nb\r\nc\n", "b\n", "x\n", "a\nx\nc\n"),
        ("a\nb\n", "b\n", "x", "a\nx\n"),
        ("a\nb", "b", "x\n", "a\nx"),
        ("a\r\nb\r\n", "b\n", "x", "a\r\nx\r\n"),
        ("a\r\nb\r\nc", "c", "x\n", "a\r\nb\r\nx"),
        ("a\r\n\r\nb\r\n", "\n\n", "\n", "a\r\nb\r\n"),
        ("one\n", "one\n", "", ""),
        ("a\rb\n", "b", "c", "a\rc\n"),
    ];
    for (before, old, new, after) in table {
        let scratch = Scratch::new();
        scratch.put("f", before);
        replace(&scratch, args("f", old, new)).unwrap_or_else(|e| panic!("{before:?}: {e:?}"));
        let found = String::from_utf8(bytes(&scratch, "f")).expect("text");
        assert_eq!(found, *after, "{old:?} in {before:?}");
    }
}

#[test]
fn encodings_are_preserved_and_binary_files_are_refused() {
    let scratch = Scratch::new();
    for (name, encoding) in [("wide", Encoding::Utf16Le), ("marked", Encoding::Utf8Marked)] {
        scratch.put(name, encoding.encode("grün\r\n"));
        replace(&scratch, args(name, "ü", "ö")).expect("text");
        assert_eq!(bytes(&scratch, name), encoding.encode("grön\r\n"));
    }
    scratch.put("latin", b"gr\xfcn a\n");
    assert_eq!(kind(&scratch, args("latin", "a", "b")), ErrorKind::EditPreparationFailure);
    assert_eq!(bytes(&scratch, "latin"), b"gr\xfcn a\n");
}

#[test]
fn an_empty_old_text_creates_a_file() {
    let scratch = Scratch::new();
    let real = scratch.path().join("new/a");
    assert_eq!(replace(&scratch, args("new/a", "", "1\n")), Ok(format!("Created {}.", real.display())));
    assert_eq!(bytes(&scratch, "new/a"), b"1\n");
    assert_eq!(kind(&scratch, args("new/a", "", "2\n")), ErrorKind::AttemptToCreateExistingFile);
    // Creating does not look elsewhere: it means this place.
    replace(&scratch, args("a", "", "3\n")).expect("nothing is there");
    assert_eq!(bytes(&scratch, "a"), b"3\n");
}

#[test]
fn impossible_replacements_are_refused_when_planned() {
    let scratch = Scratch::new();
    scratch.put("f", "a b\na c\n");
    scratch.put("dir/x", "");
    for (args, expected) in [
        (args("f", "zzz", "y"), ErrorKind::EditNoOccurrenceFound),
        (args("f", "a", "y"), ErrorKind::EditExpectedOccurrenceMismatch),
        (args("f", "a b", "a b"), ErrorKind::EditNoChange),
        (args("f", "a c\n", "a c"), ErrorKind::EditNoChange),
        (args("nowhere", "a", "b"), ErrorKind::FileNotFound),
        (args("dir", "a", "b"), ErrorKind::TargetIsDirectory),
        (args("../f", "a", "b"), ErrorKind::PathNotInWorkspace),
        (args(".git/config", "a", "b"), ErrorKind::PolicyViolation),
        (args("f", "a b", "x\n// rest of code ...\n"), ErrorKind::InvalidToolParams),
    ] {
        let error = plan(&scratch, &args).expect_err("it cannot be done");
        assert_eq!(error.kind, expected, "{args}");
    }
    scratch.put("g", "x\n// rest of code ...\n");
    let kept = args("g", "x\n// rest of code ...", "y\n// rest of code ...");
    replace(&scratch, kept).expect("the words were there before");
    assert_eq!(bytes(&scratch, "f"), b"a b\na c\n");
}

#[test]
fn a_file_in_a_subdirectory_is_found_if_it_is_the_only_one() {
    let scratch = Scratch::new();
    scratch.put("src/deep/mod.rs", "a\n");
    scratch.put("src/other/mod.rs", "a\n");
    replace(&scratch, args("deep/mod.rs", "a", "b")).expect("there is one");
    assert_eq!(bytes(&scratch, "src/deep/mod.rs"), b"b\n");
    assert_eq!(
        replace(&scratch, args("mod.rs", "a", "b")),
        Err(invalid(
            "There is no file mod.rs, but there are src/deep/mod.rs, src/other/mod.rs. Name the one you mean."
        ))
    );
    let absolute = scratch.path().join("deep/mod.rs");
    let absolute = absolute.to_str().expect("plain");
    assert_eq!(kind(&scratch, args(absolute, "a", "b")), ErrorKind::FileNotFound);
}

#[test]
fn a_changed_file_is_not_overwritten_and_text_edited_by_the_user_is_written() {
    let scratch = Scratch::new();
    let file = scratch.put("a", "x\r\ny\r\n");
    let order = args("a", "x", "z");
    let base = plan(&scratch, &order).expect("a plan").base;
    let approved = Run { base, edited: Some("mine\n".into()), ..run_of(&scratch, "replace", order) };
    scratch.put("a", "x and more\r\n");
    assert_eq!(run(&scratch, &approved), RunEnd::Stale);
    scratch.put("a", "x\r\ny\r\n");
    let RunEnd::Ended(Ending::Success { output, .. }) = run(&scratch, &approved) else {
        panic!("it is the file that was shown");
    };
    assert_eq!(
        output.as_str(),
        format!(
            "Modified {} (1 replacement). The user changed the content you proposed before it was written:\n\
             @@ -1,2 +1,1 @@\n-z\r\n-y\r\n+mine\r\nWhat changed:\n@@ -1,2 +1,1 @@\n-x\r\n-y\r\n+mine\r\n",
            file.display()
        )
    );
    assert_eq!(bytes(&scratch, "a"), b"mine\r\n");
}

#[test]
fn git_applies_the_shown_diff_with_the_same_result() {
    if Command::new("git").arg("--version").output().is_err() {
        eprintln!("skipped: there is no git here");
        return;
    }
    let mut random = Random::new(5);
    let words = ["alpha", "  beta()", "gamma = 1;", "", "\tdelta", "ende"];
    for round in 0..40 {
        let scratch = Scratch::new();
        let ending = ["\n", "\r\n"][random.below(2)];
        let lines: Vec<&str> = (0..5 + random.below(20)).map(|_| words[random.below(words.len())]).collect();
        let mut before = lines.join(ending);
        if random.below(3) > 0 {
            before.push_str(ending);
        }
        let first = random.below(lines.len());
        let last = (first + 1 + random.below(3)).min(lines.len());
        let old = lines[first..last].join("\n");
        let new = ["other", "two\n  lines", "", "ende\n"][random.below(4)];
        let file = scratch.put("a.txt", &before);
        let order = all("a.txt", &old, new);
        let Ok(planned) = plan(&scratch, &order) else {
            continue;
        };
        let Question::Edit { diff, new, .. } = &planned.question else {
            panic!("{planned:?}");
        };
        scratch.put("p.diff", diff.as_str());
        // An emptied file would be deleted by git; everything else must be the same.
        if !new.is_empty() {
            let status = Command::new("git")
                .args(["apply", "-p0", "--whitespace=nowarn", "p.diff"])
                .current_dir(scratch.path())
                .stdout(Stdio::null())
                .status()
                .expect("git runs");
            assert!(status.success(), "round {round}: {diff}");
            assert_eq!(std::fs::read_to_string(&file).expect("it is there"), new.as_str());
            scratch.put("a.txt", &before);
        }
        replace(&scratch, order).expect("it was planned");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), new.as_str());
    }
}

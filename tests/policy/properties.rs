//! Properties of random lines.

use crate::random::Random;
use crate::{Allow, SHELL, plain};
use gemini_a2a::task::command_line;
use gemini_a2a::task::policy::Tier;
use serde_json::json;

#[rustfmt::skip]
const PIECES: &[&str] = &[
    "ls", "rm", "cat", "git", "echo", "a", "b.rs", "-l", "-c", "-exec", "x=1", "PATH=.", "1", "2", " ", " ", " ", " ", "\t",
    "\n", ";", "&", "&&", "|", "||", "|&", "(", ")", "{", "}", "{ ", "; }", "((", "))", "[[", "]]", "<", ">", ">>", "<<", "<<EOF\n",
    "\nEOF\n", "<<<", ">&", "&>", "<(", "$(", "$((", "${", "$x", "$", "`", "'", "\"", "\\", "\\\n", "$'", "#", "*", "?", "[", "~",
    "!", "if ", "then ", "else ", "fi", "for ", "in ", "do ", "done", "while ", "case ", "esac", ";;", "function ", "time ", "sh -c ",
    "eval ", "xargs ", "env ", "sudo ", "find . ", "timeout 5 ", "é", "\u{202e}", "=", ",", "..", "/dev/null", "/etc/passwd",
    "${x:-", "a=(", "a[", "]=", "+=", "select ", "coproc ", "trap ", "-p ", "\r", "3>&1", ">&-", "-", "<>", ">|", "&>>", "<<-E\n", "<<'E'\n",
    "\tE\n", "\nE\n", "E", "$\"", "$[", "{a,b}", ";&", ";;&", "=~", "@(", "f() ", "\\'", "\\\"", "\\\\", "EOF",
];

pub fn line(random: &mut Random) -> String {
    let len = 1 + random.below(12);
    (0..len).map(|_| PIECES[random.below(PIECES.len())]).collect()
}

/// Every allowed line consists only of commands that are also allowed alone.
#[test]
fn an_allowed_line_has_only_allowed_parts() {
    let allow = json!([{"toolName": SHELL, "commandPrefix": ["rm", "git add"], "decision": "allow", "priority": 1}]);
    let case = plain().rules(Tier::User, allow);
    let mut random = Random::new(0xa110);
    let mut allowed = 0;
    for _ in 0..60_000 {
        let line = line(&mut random);
        if case.run(&line).verdict != Allow {
            continue;
        }
        allowed += 1;
        let commands = command_line::parse(&line).expect("what is not understood is not allowed");
        for simple in commands {
            assert!(simple.writes.is_empty(), "{line:?}");
            let words: Vec<String> = simple.words.iter().map(quoted).collect();
            let alone = case.run(&words.join(" "));
            assert_eq!(alone.verdict, Allow, "{words:?} of {line:?}: {alone:?}");
        }
    }
    assert!(allowed > 200, "only {allowed} were allowed");
}

fn quoted(word: &command_line::Word) -> String {
    match word.literal() {
        Some(text) => format!("'{}'", text.replace('\'', "'\\''")),
        None => word.text.clone(),
    }
}

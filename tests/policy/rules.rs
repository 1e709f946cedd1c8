//! Rules of the policy: tiers and priorities, rules from settings, invalid rules, and rules from "always" answers.

use super::*;

#[test]
fn the_tier_and_then_the_priority_decide() {
    let rule =
        |decision: &str, priority: u16| json!([{"toolName": "write_file", "decision": decision, "priority": priority}]);
    let case = plain().rules(Tier::Workspace, rule("allow", 999)).rules(Tier::User, rule("deny", 0));
    assert_eq!(case.edit("write_file", "/w/a"), Deny);
    let case = case.rules(Tier::Admin, rule("ask_user", 0));
    assert_eq!(case.edit("write_file", "/w/a"), Asks);
    let case = plain().rules(Tier::User, rule("allow", 5)).rules(Tier::User, rule("deny", 4));
    assert_eq!(case.edit("write_file", "/w/a"), Allow);
    // Of rules with the same rank the stricter one decides.
    let case = case.rules(Tier::User, rule("ask_user", 5));
    assert_eq!(case.edit("write_file", "/w/a"), Asks);
}

#[test]
fn names_may_be_lists_and_all() {
    let rules = json!([
        {"toolName": ["custom_log", "web_fetch"], "decision": "allow", "priority": 2},
        {"toolName": "custom_drop", "decision": "deny", "priority": 1, "denyMessage": "not here"},
        {"toolName": "*", "decision": "deny", "modes": ["autoEdit"], "priority": 3},
    ]);
    let case = plain().rules(Tier::User, rules);
    assert_eq!(case.info("custom_log", Kind::Other), Allow);
    assert_eq!(case.info("web_fetch", Kind::Fetch), Allow);
    let denied = case.judge("custom_drop", Kind::Other, &json!({}), &info());
    assert_eq!((denied.verdict, denied.reason.as_str()), (Deny, "not here"));
    assert_eq!(case.clone().mode(Mode::AutoEdit).info("read_file", Kind::Read), Deny);
    assert_eq!(case.info("read_file", Kind::Read), Allow);
}

#[test]
fn settings_become_rules() {
    let case = plain().tools(json!({
        "exclude": ["web_fetch", "ShellTool(git push)"],
        "confirmationRequired": ["read_file", "run_shell_command(ls)"],
        "allowed": ["write_file", "run_shell_command(git)", "ShellTool(npm:*)"],
    }));
    assert_eq!(case.info("web_fetch", Kind::Fetch), Deny);
    assert_eq!(case.info("read_file", Kind::Read), Asks);
    assert_eq!(case.edit("write_file", "/w/a"), Allow);
    assert_eq!(case.clone().mode(Mode::Plan).edit("write_file", "/w/a"), Deny);
    case.assert_verdicts(&[
        ("git commit -m x", Allow, "allowed"),
        ("npm ci", Allow, "allowed"),
        ("git push", Deny, "excluded, which counts more"),
        ("git commit -m x && git push", Deny, "a part is excluded"),
        ("ls", Asks, "must be confirmed, however harmless"),
        ("pwd", Allow, "harmless"),
        ("make", Asks, "nothing is said about it"),
    ]);
}

#[test]
fn tools_core_limits_the_tools_and_approves_none() {
    let case = plain().tools(json!({"core": ["read_file", "write_file", "run_shell_command(git)"]}));
    assert_eq!(case.info("read_file", Kind::Read), Allow);
    assert_eq!(case.edit("write_file", "/w/a"), Asks);
    assert_eq!(case.edit("replace", "/w/a"), Deny);
    case.assert_verdicts(&[
        ("git commit", Asks, "listed, not approved"),
        ("git status", Allow, "listed and harmless"),
        ("ls", Deny, "not listed"),
        ("git status; ls", Deny, "a part is not listed"),
    ]);
}

#[test]
fn auto_accept_allows_all_reading_tools() {
    let case = plain().rules(Tier::Workspace, json!([{"toolName": "list_things", "decision": "ask_user"}]));
    assert_eq!(case.info("list_things", Kind::Read), Asks);
    let case = case.tools(json!({"autoAccept": true}));
    assert_eq!(case.info("list_things", Kind::Read), Allow);
    assert_eq!(case.edit("write_file", "/w/a"), Asks);
    assert_eq!(case.run("make").verdict, Asks);
}

#[test]
fn an_invalid_rule_is_reported_and_the_others_apply() {
    let mut policy = Policy::built_in();
    let rules = json!([
        {"toolName": SHELL, "decision": "maybe"},
        {"toolName": SHELL, "decision": "allow", "priority": 1000},
        {"toolName": SHELL, "decision": "allow", "commandRegex": "("},
        {"toolName": SHELL, "decision": "allow", "argsPattern": "a".repeat(2049)},
        {"toolName": [], "decision": "allow"},
        {"toolName": SHELL, "decision": "allow", "commandPrefix": " "},
        {"toolName": SHELL, "decision": "allow", "commandPrefx": "ls"},
        {"decision": "allow"},
        {"toolName": SHELL, "commandPrefix": "make", "decision": "allow"},
    ]);
    let problems = policy.add(Tier::User, &rules);
    let expected = [
        ("user rule 1", "maybe"),
        ("user rule 2", "1000"),
        ("user rule 3", "commandRegex"),
        ("user rule 4", "2048"),
        ("user rule 5", "toolName"),
        ("user rule 6", "commandPrefix"),
        ("user rule 7", "commandPrefx"),
        ("user rule 8", "toolName"),
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, (place, word)) in problems.iter().zip(expected) {
        assert!(problem.starts_with(place) && problem.contains(word), "{problem}");
    }
    let case = Case { policy, ..plain() };
    assert_eq!(case.run("make").verdict, Allow);
    assert_eq!(Policy::built_in().add(Tier::User, &json!({})).len(), 1);
    let settings = ToolSettings {
        allowed: vec!["write_file(x)".into(), "run_shell_command(x".into(), "".into()],
        ..ToolSettings::default()
    };
    assert_eq!(Policy::built_in().configure(&settings).len(), 3);
}

fn prefixes(command: &str) -> Vec<String> {
    let rules = always(SHELL, &Origin::BuiltIn, &Value::Null, &exec(command), Choice::ProceedAlways, Mode::Default);
    let prefix = |rule: &Rule| {
        let names = rule.command_prefix.as_ref().expect("a prefix");
        names.iter().map(str::to_owned).collect::<Vec<_>>().join("+")
    };
    rules.iter().map(prefix).collect()
}

#[test]
fn always_allows_what_was_shown_and_no_interpreter() {
    #[rustfmt::skip]
    let cases: &[(&str, &[&str])] = &[
        ("make all", &["make"]),
        ("git commit -m x", &["git commit"]),
        ("cargo test && cargo build --release; cargo test", &["cargo test", "cargo build"]),
        ("npm run lint", &["npm run lint"]),
        ("gh pr view 3", &["gh pr view"]),
        ("ls | tee x", &["tee"]),
        ("make > out", &["make"]),
        // Commands without a prefix that could become a rule.
        ("git", &[]),
        ("git -c a=b commit", &[]),
        ("cargo $x", &[]),
        ("$x", &[]),
        ("make 'a", &[]),
        ("ls", &[]),
        // These run whatever they are given.
        ("sh x", &[]), ("bash -c \"$x\"", &[]), ("python x.py", &[]), ("python3.12 x.py", &[]),
        ("/usr/bin/perl -e x", &[]), ("node x", &[]), ("ruby x", &[]), ("awk x", &[]), ("sed -i x y", &[]),
        ("env make", &[]), ("sudo make", &[]), ("xargs make", &[]), ("eval 'make'", &[]), ("timeout 5 make", &[]), ("bash -c 'make all'", &[]),
        ("for x in 1; do make; done", &[]), ("make; A=1 make", &[]),
        ("find . -delete", &[]), (". x", &[]), ("source x", &[]), ("export A=1", &[]), ("alias a=b", &[]),
    ];
    for (command, expected) in cases {
        assert_eq!(prefixes(command), *expected, "{command}");
    }
}

#[test]
fn a_session_grant_covers_only_what_was_approved() {
    let said = |tool: &str, plan: &Plan| {
        let session = always(tool, &Origin::BuiltIn, &Value::Null, plan, Choice::ProceedAlways, Mode::Default);
        Case { session, ..plain() }
    };
    let edits = said("write_file", &edit("/w/a"));
    assert_eq!(edits.edit("write_file", "/w/a"), Allow);
    assert_eq!(edits.edit("replace", "/w/a"), Allow, "it is the same file");
    assert_eq!(edits.edit("write_file", "/w/b"), Asks);
    assert_eq!(edits.clone().mode(Mode::Plan).edit("write_file", "/w/a"), Deny);
    let fetches = said("web_fetch", &info());
    assert_eq!(fetches.info("web_fetch", Kind::Fetch), Allow);
    assert_eq!(fetches.info("other", Kind::Fetch), Asks);
    said(SHELL, &exec("git add . && make")).assert_verdicts(&[
        ("git add x && make test | tail", Allow, "the same commands"),
        ("git commit", Asks, "another subcommand"),
        ("git add x > y", Asks, "a file was not spoken of"),
        ("git add $(ls)", Asks, "nor a substitution"),
    ]);
    // A written rule has a higher rank than an answer.
    let strict = edits.tools(json!({"confirmationRequired": ["write_file"]}));
    assert_eq!(strict.edit("write_file", "/w/a"), Asks);
    assert_eq!(strict.edit("replace", "/w/a"), Allow);
}

#[test]
fn saved_rules_are_read_again() {
    let always =
        |tool: &str, plan: &Plan, mode| always(tool, &Origin::BuiltIn, &Value::Null, plan, Choice::ProceedAlways, mode);
    let mut rules = always(SHELL, &exec("git add ."), Mode::Default);
    rules.extend(always("write_file", &edit("/w/a"), Mode::AutoEdit));
    let saved: Vec<Value> = rules.into_iter().map(saved_rule).collect();
    let case = plain().rules(Tier::User, Value::from(saved));
    case.assert_verdicts(&[("git add x", Allow, "saved"), ("git push", Asks, "not saved")]);
    assert_eq!(case.edit("write_file", "/w/a"), Asks, "saved for a more permissive mode");
    assert_eq!(case.clone().mode(Mode::AutoEdit).edit("write_file", "/w/a"), Allow);
    let excluded = case.tools(json!({"exclude": ["run_shell_command(git add)"]}));
    assert_eq!(excluded.run("git add x").verdict, Deny);
    let problems = Policy::built_in().add(Tier::User, &json!([1]));
    assert_eq!(problems.len(), 1);
}

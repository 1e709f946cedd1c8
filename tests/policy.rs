//! What may run without approval: the decisions about the lines of `policy/lines.rs`, then rules, modes and settings, then properties
//! of random lines.

use gemini_a2a::limits::STARTER_WORDS;
use gemini_a2a::task::origin::Origin;
use gemini_a2a::task::policy::{CallContext, Mode, Policy, Rule, Ruling, Tier, ToolSettings, always, saved_rule};
use gemini_a2a::task::spec::{Choice, Confinement, Kind, Plan, Question, Verdict};
use gemini_a2a::tool::Toolbox;
use serde_json::{Value, json};

#[path = "policy/agents.rs"]
mod agents;
#[path = "policy/files.rs"]
mod files;
#[path = "policy/lines.rs"]
mod lines;
#[path = "policy/mcp.rs"]
mod mcp;
#[path = "policy/properties.rs"]
mod properties;
#[path = "support/random.rs"]
mod random;
#[path = "policy/reader.rs"]
mod reader;
#[path = "policy/rules.rs"]
mod rules;
#[path = "support/tool_context.rs"]
mod tool_context;

const SHELL: &str = "run_shell_command";

/// The circumstances of a call: by default a trusted workspace and the built-in rules.
#[derive(Clone)]
struct Case {
    policy: Policy,
    mode: Mode,
    session: Vec<Rule>,
    denied: Vec<Rule>,
    trusted: bool,
    interactive: bool,
    auto_execute: bool,
}

fn plain() -> Case {
    Case {
        policy: Policy::built_in(),
        mode: Mode::Default,
        session: vec![],
        denied: vec![],
        trusted: true,
        interactive: true,
        auto_execute: false,
    }
}

impl Case {
    fn mode(mut self, mode: Mode) -> Case {
        self.mode = mode;
        self
    }

    #[track_caller]
    fn rules(mut self, tier: Tier, rules: Value) -> Case {
        assert_eq!(self.policy.add(tier, &rules), Vec::<String>::new());
        self
    }

    #[track_caller]
    fn tools(mut self, settings: Value) -> Case {
        let settings: ToolSettings = serde_json::from_value(settings).expect("settings");
        assert_eq!(self.policy.configure(&settings), Vec::<String>::new());
        self
    }

    fn judge(&self, tool: &str, kind: Kind, args: &Value, plan: &Plan) -> Ruling {
        let by_default = match kind {
            Kind::Read | Kind::Search => Verdict::Allow,
            _ => Verdict::Ask,
        };
        self.judge_of(&Origin::BuiltIn, by_default, (tool, kind), args, plan)
    }

    fn judge_of(
        &self,
        origin: &Origin,
        by_default: Verdict,
        (tool, kind): (&str, Kind),
        args: &Value,
        plan: &Plan,
    ) -> Ruling {
        self.policy.judge(&CallContext {
            tool,
            kind,
            origin,
            by_default,
            args,
            plan,
            mode: self.mode,
            session: &self.session,
            denied: &self.denied,
            trusted: self.trusted,
            interactive: self.interactive,
            auto_execute: self.auto_execute,
        })
    }

    fn run(&self, command: &str) -> Ruling {
        let args = json!({ "command": command });
        self.judge(SHELL, Kind::Execute, &args, &exec(command))
    }

    fn edit(&self, tool: &str, path: &str) -> Verdict {
        let args = json!({ "file_path": path });
        self.judge(tool, Kind::Edit, &args, &edit(path)).verdict
    }

    fn info(&self, tool: &str, kind: Kind) -> Verdict {
        self.judge(tool, kind, &json!({}), &info()).verdict
    }

    /// Checks the decision about every line of a table.
    #[track_caller]
    fn assert_verdicts(&self, table: &[(&str, Verdict, &str)]) {
        let mut wrong = Vec::new();
        for (command, expected, why) in table {
            let got = self.run(command);
            if got.verdict != *expected {
                wrong.push(format!("{command:?} must get {expected:?} ({why}), not {got:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

fn plan(question: Question) -> Plan {
    Plan { title: String::new(), question, base: None }
}

fn exec(command: &str) -> Plan {
    plan(Question::Exec {
        title: String::new(),
        command: command.into(),
        programs: vec![],
        dir: None,
        warnings: vec![],
        needs_approval: None,
        edits: vec![],
    })
}

/// The plan of a command with the findings of `prepare` about its files.
fn found(command: &str, written: &[&str], why: Option<&str>) -> Plan {
    let mut plan = exec(command);
    if let Question::Exec { edits, needs_approval, .. } = &mut plan.question {
        *edits = written.iter().map(|file| (*file).to_owned()).collect();
        *needs_approval = why.map(str::to_owned);
    }
    plan
}

fn edit(path: &str) -> Plan {
    plan(Question::Edit {
        title: String::new(),
        file_name: String::new(),
        file_path: path.into(),
        diff: "".into(),
        old: None,
        new: "".into(),
    })
}

fn info() -> Plan {
    plan(Question::Info { title: String::new(), prompt: String::new(), urls: vec![] })
}

use Verdict::{Allow, Ask as Asks, Deny};

#[test]
fn every_line_gets_its_decision() {
    assert!(lines::UNASKED.len() >= 120 && lines::ASKS.len() >= 180);
    let untrusted = Case { trusted: false, ..plain() };
    let mut wrong = Vec::new();
    for line in lines::UNASKED {
        let got = untrusted.run(line);
        let expected = Confinement::ReadOnly { writable: vec![] };
        if got.verdict != Allow || got.confinement != expected {
            wrong.push(format!("{line:?} must run confined, not {got:?}"));
        }
    }
    for (line, why) in lines::ASKS {
        let got = untrusted.run(line);
        if got.verdict != Asks {
            wrong.push(format!("{line:?} must ask ({why}), not {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn findings_of_prepare_make_read_only_commands_ask() {
    for (line, _) in lines::LEADS_OUT {
        let found = found(line, &[], Some("it leads out"));
        let judged = |case: Case| case.judge(SHELL, Kind::Execute, &json!({ "command": line }), &found);
        let ruling = judged(plain());
        assert_eq!(ruling.verdict, Asks, "{line:?}");
        // A rule for the whole tool still allows it, as the user; files of redirections are looked at all the same.
        if line.contains('<') {
            continue;
        }
        let allowed = judged(plain().tools(json!({"allowed": [SHELL]})));
        assert_eq!((allowed.verdict, allowed.confinement), (Allow, Confinement::None), "{line:?}");
    }
}

#[test]
fn yolo_runs_every_line_unconfined_and_plan_mode_none() {
    let all = lines::UNASKED.iter().chain(lines::ASKS.iter().map(|(line, _)| line));
    for line in all {
        let ruling = plain().mode(Mode::Yolo).run(line);
        assert_eq!((ruling.verdict, ruling.confinement), (Allow, Confinement::None), "{line:?}");
        assert_eq!(plain().mode(Mode::Plan).run(line).verdict, Deny, "{line:?}");
    }
}

#[test]
fn a_line_that_is_too_long_asks() {
    let long = format!("echo {}", "a".repeat(70_000));
    for line in [&long, &"ls;".repeat(1_000)] {
        assert_eq!(plain().run(line).verdict, Asks);
    }
    assert_eq!(plain().run(&"ls;".repeat(200)).verdict, Allow);
}

#[test]
fn a_line_with_allowed_and_read_only_commands_runs_as_the_user() {
    let allow = json!([{"toolName": SHELL, "commandPrefix": ["npm test", "make"], "decision": "allow"}]);
    let case = plain().rules(Tier::User, allow);
    let untrusted = Case { trusted: false, ..case.clone() };
    let judged = |case: &Case, line: &str| {
        let ruling = case.run(line);
        (ruling.verdict, ruling.confinement)
    };
    let as_user = (Allow, Confinement::None);
    let confined = (Allow, Confinement::ReadOnly { writable: vec![] });
    let asks = (Asks, Confinement::None);
    for (line, trusted, not) in [
        ("cd src && npm test", &as_user, &as_user),
        ("npm test 2>&1 | tail -5", &as_user, &as_user),
        ("make; git status", &as_user, &asks),
        ("git status", &confined, &confined),
        ("ls | wc -l", &confined, &confined),
        // Files of the workspace may choose which compiler tells its version.
        ("make; cargo --version", &asks, &asks),
        ("cargo --version", &confined, &confined),
        ("make; rm x", &asks, &asks),
        ("make > x", &asks, &asks),
    ] {
        assert_eq!(judged(&case, line), *trusted, "{line}");
        assert_eq!(judged(&untrusted, line), *not, "{line} where nothing is trusted");
    }
}

#[test]
fn a_denied_command_is_found_wherever_it_stands() {
    let deny = json!([{"toolName": SHELL, "commandPrefix": "rm", "decision": "deny", "priority": 100}]);
    #[rustfmt::skip]
    let table: &[(&str, Verdict, &str)] = &[
        ("ls", Allow, "another command"),
        ("rmdir x", Allow, "another word"),
        ("make clean", Allow, "what make does is not known from here"),
        ("rm x", Deny, "it"),
        ("ls; rm x", Deny, "in a list"),
        ("ls | rm x", Deny, "in a pipe"),
        ("/bin/rm x", Deny, "by its path"),
        ("\\rm x", Asks, "not understood, so may be it"),
        ("r'm' x", Deny, "quoted"),
        ("$'\\x72m' x", Asks, "encoded"),
        ("X=1 rm x", Asks, "behind a variable"),
        ("(rm x)", Asks, "in a subshell"),
        ("f() { rm x; }; f", Asks, "in a function"),
        ("echo $(rm x)", Asks, "in a substitution"),
        ("echo `rm x`", Asks, "in backticks"),
        ("cat <(rm x)", Asks, "in a process substitution"),
        ("cat <<EOF\n`rm x`\nEOF", Asks, "in a here document"),
        ("sh -c 'rm x'", Deny, "in a script"),
        ("bash -c 'bash -c \"rm x\"'", Asks, "in a script in a script"),
        ("eval rm x", Deny, "evaluated"),
        ("eval 'r''m x'", Deny, "evaluated"),
        ("trap 'rm x' EXIT", Deny, "later"),
        ("sudo rm x", Deny, "as somebody else"),
        ("sudo -u bob rm x", Deny, "as somebody else"),
        ("env A=1 rm x", Deny, "with another environment"),
        ("xargs -0 -n 1 rm", Deny, "by xargs"),
        ("find . -exec rm {} ;", Asks, "by find"),
        ("timeout -s KILL 5 nice rm x", Deny, "behind two starters"),
        ("busybox rm x", Deny, "in a box"),
        ("su -c 'rm x'", Deny, "as somebody else"),
        ("$CMD x", Asks, "may be it"),
        ("r? x", Asks, "may be it"),
        ("eval \"$x\"", Asks, "may be it"),
        ("sh -c \"$x\"", Asks, "may be it"),
        ("curl x | sh", Asks, "may be it"),
        ("sudo --weird rm x", Deny, "among its words"),
        ("xargs -I rm rm", Deny, "among its words"),
        ("watch rm x", Deny, "among its words"),
        ("ls 'a", Asks, "not understood, so may be it"),
    ];
    let case = plain().mode(Mode::Yolo).rules(Tier::User, deny);
    for (words, expected) in [(STARTER_WORDS, Allow), (STARTER_WORDS + 1, Asks)] {
        assert_eq!(case.run(&format!("nohup {}", "x ".repeat(words))).verdict, expected, "{words} words");
    }
    case.assert_verdicts(table);
    // If nobody is asked, a line that may be denied is denied.
    let alone = Case { auto_execute: true, ..case };
    for (command, verdict, why) in table {
        let expected = if *verdict == Asks { Deny } else { *verdict };
        assert_eq!(alone.run(command).verdict, expected, "{command} {why}");
    }
}

#[test]
fn a_denied_subcommand_is_suspected_behind_options() {
    let deny = json!([{"toolName": SHELL, "commandPrefix": "git push", "decision": "deny"}]);
    plain().mode(Mode::Yolo).rules(Tier::User, deny).assert_verdicts(&[
        ("git push", Deny, "it"),
        ("git -C . push", Asks, "may be it"),
        ("git $x", Asks, "may be it"),
        ("git commit -m push", Allow, "another subcommand"),
        ("git log", Allow, "another subcommand"),
    ]);
}

#[test]
fn an_allowed_prefix_fits_whole_words_and_nothing_around_them() {
    let allow = json!([
        {"toolName": SHELL, "commandPrefix": ["cargo test", "git log"], "decision": "allow", "priority": 100},
        {"toolName": SHELL, "commandPrefix": "make", "decision": "allow", "priority": 100, "allowRedirection": true},
    ]);
    #[rustfmt::skip]
    plain().rules(Tier::User, allow).assert_verdicts(&[
        ("cargo test", Allow, "it"),
        ("cargo test --lib | tail -5", Allow, "and something harmless"),
        ("timeout 60 cargo test", Asks, "timeout starts anything"),
        ("bash -c 'cargo test && cargo test'", Asks, "bash runs anything"),
        ("cargo test $x", Asks, "not understood"),
        ("cargo tests", Asks, "another word"),
        ("cargo publish", Asks, "another subcommand"),
        ("cargo $x", Asks, "an unknown subcommand"),
        ("./cargo test", Asks, "another program"),
        ("/tmp/cargo test", Asks, "another program"),
        ("cargo test; rm x", Asks, "and something else"),
        ("cargo test > a", Asks, "and a file"),
        ("cargo test $(cargo test)", Asks, "a substitution is never allowed by rules"),
        ("RUSTC=./x cargo test", Asks, "a variable changes what it runs"),
        ("cargo test 'a", Asks, "not understood"),
        ("sudo cargo test", Asks, "as somebody else"),
        ("env cargo test", Asks, "with another environment"),
        ("xargs cargo test", Asks, "with other words"),
        ("git -c core.pager=x log", Asks, "options stand between"),
        ("make > a", Allow, "the rule says so"),
        ("make > a; ls > b", Asks, "the rule speaks of make only"),
    ]);
}

#[test]
fn a_rule_for_every_command_still_asks_about_dangers() {
    plain().tools(json!({"allowed": [SHELL]})).assert_verdicts(&[
        ("make", Allow, "every command is allowed"),
        ("rm a", Allow, "every command is allowed"),
        ("rm -rf a", Asks, "dangerous"),
        ("sudo make", Asks, "dangerous"),
        ("make; rm -f a", Asks, "dangerous"),
        ("ls 'a", Asks, "not understood"),
        ("$x", Asks, "no known program"),
        ("make > a", Asks, "writes a file"),
        ("A=1 make", Asks, "sets a variable"),
    ]);
}

#[test]
fn patterns_apply_to_single_commands() {
    let rules = json!([
        {"toolName": SHELL, "commandRegex": "npm (test|run lint)$", "decision": "allow", "priority": 10},
        {"toolName": SHELL, "commandRegex": "curl .*evil", "decision": "deny", "priority": 20},
        {"toolName": SHELL, "argsPattern": "\0\"dir_path\":\"/secret", "decision": "deny", "priority": 30},
    ]);
    let case = plain().rules(Tier::User, rules);
    case.assert_verdicts(&[
        ("npm test", Allow, "it"),
        ("npm test && npm run lint", Allow, "both"),
        ("npm test; rm x", Asks, "the pattern is for one command"),
        ("echo npm test; x npm test", Asks, "the pattern is for its start"),
        ("npm test $x", Asks, "not certain"),
        ("curl -s http://evil", Deny, "it"),
        ("/usr/bin/curl evil", Deny, "by its path"),
        ("ls; curl evil", Deny, "in a list"),
    ]);
    let secret = json!({"command": "ls", "dir_path": "/secret/x"});
    let judged = |args: &Value| case.judge(SHELL, Kind::Execute, args, &exec("ls")).verdict;
    assert_eq!(judged(&secret), Deny);
    // A member cannot be forged within a value.
    let forged = json!({"command": "ls", "description": "\0\"dir_path\":\"/secret"});
    assert_eq!(judged(&forged), Allow);
}

#[test]
fn git_runs_only_confined_in_an_untrusted_workspace() {
    let untrusted = Case { trusted: false, ..plain() };
    untrusted.assert_verdicts(&[
        ("git status", Allow, "it runs confined"),
        ("git push", Asks, "it does something"),
        ("/usr/bin/git log", Asks, "by its path"),
    ]);
    let confined = Confinement::ReadOnly { writable: vec![] };
    let yolo = untrusted.clone().mode(Mode::Yolo);
    assert_eq!(yolo.run("git status; ls").confinement, confined);
    yolo.assert_verdicts(&[
        ("git push", Asks, "even in yolo"),
        ("git status; make", Asks, "the line cannot be confined"),
    ]);
    let allow = json!([{"toolName": SHELL, "commandPrefix": "git", "decision": "allow"}]);
    let allowed = untrusted.rules(Tier::User, allow);
    assert_eq!(allowed.run("git status").confinement, confined);
    allowed.assert_verdicts(&[("git push", Asks, "whatever a rule says"), ("/usr/bin/git push", Asks, "by its path")]);
}

#[test]
fn auto_edit_covers_redirections_that_an_edit_could_do() {
    let judged = |mode: Mode, line: &str, edits: &[&str], needs_approval: Option<&str>| {
        let args = json!({ "command": line });
        let ruling = plain().mode(mode).judge(SHELL, Kind::Execute, &args, &found(line, edits, needs_approval));
        (ruling.verdict, ruling.confinement)
    };
    let asks = (Asks, Confinement::None);
    let written = (Allow, Confinement::ReadOnly { writable: vec!["/w/a".into()] });
    assert_eq!(judged(Mode::AutoEdit, "echo x > a", &["/w/a"], None), written);
    assert_eq!(judged(Mode::AutoEdit, "cat b | sort >> a", &["/w/a"], None), written);
    assert_eq!(judged(Mode::Default, "echo x > a", &["/w/a"], None), asks);
    assert_eq!(judged(Mode::AutoEdit, "echo x > a", &[], Some("a is protected")), asks);
    assert_eq!(judged(Mode::AutoEdit, "echo x > a", &[], None), asks, "nobody looked at the file");
    assert_eq!(judged(Mode::AutoEdit, "make > a", &["/w/a"], None), asks, "make is no edit");
    assert_eq!(judged(Mode::AutoEdit, "echo $(ls) > a", &["/w/a"], None), asks);
}

#[test]
fn modes_decide_about_the_other_tools() {
    let modes = |of: &dyn Fn(&Case) -> Verdict| Mode::ALL.map(|mode| of(&plain().mode(mode)));
    let edits = |tool: &'static str| modes(&move |case| case.edit(tool, "/w/a"));
    let others = |tool: &'static str, kind| modes(&move |case| case.info(tool, kind));
    assert_eq!(edits("write_file"), [Deny, Asks, Allow, Allow]);
    assert_eq!(edits("replace"), [Deny, Asks, Allow, Allow]);
    assert_eq!(others("read_file", Kind::Read), [Allow; 4]);
    assert_eq!(others("glob", Kind::Search), [Allow; 4]);
    assert_eq!(others("google_web_search", Kind::Search), [Allow; 4]);
    assert_eq!(others("web_fetch", Kind::Fetch), [Asks, Asks, Allow, Allow]);
    assert_eq!(others("ask_user", Kind::Communicate), [Asks; 4]);
    assert_eq!(others("mcp_x_y", Kind::Other), [Deny, Asks, Asks, Allow]);
    let alone = Case { interactive: false, ..plain() };
    assert_eq!(alone.info("ask_user", Kind::Communicate), Deny);
    assert_eq!(alone.edit("write_file", "/w/a"), Deny);
    assert_eq!(alone.info("read_file", Kind::Read), Allow);
    assert_eq!(alone.run("ls").verdict, Allow);
    assert_eq!(alone.run("make").verdict, Deny);
}

#[test]
fn with_auto_execute_everything_that_is_not_denied_runs() {
    let exclude = json!({"exclude": ["web_fetch", "run_shell_command(rm)"], "confirmationRequired": ["replace"]});
    let case = Case { auto_execute: true, ..plain().tools(exclude) };
    assert_eq!(case.edit("write_file", "/w/a"), Allow);
    assert_eq!(case.edit("replace", "/w/a"), Allow);
    assert_eq!(case.run("make > /etc/x").verdict, Allow);
    assert_eq!(case.run("make; rm x").verdict, Deny);
    assert_eq!(case.info("web_fetch", Kind::Fetch), Deny);
    assert_eq!(case.info("ask_user", Kind::Communicate), Deny);
    let planning = case.mode(Mode::Plan);
    assert_eq!(planning.edit("write_file", "/w/a"), Deny);
}

#[test]
fn a_tool_is_not_declared_if_no_call_of_it_can_be_allowed() {
    let specs = Toolbox::built_in().specs();
    let forbidden = |case: &Case| -> Vec<String> {
        let forbidden = specs.iter().filter(|spec| case.policy.forbids(spec, case.mode));
        forbidden.map(|spec| spec.name.clone()).collect()
    };
    assert_eq!(forbidden(&plain()), Vec::<String>::new());
    let planning = plain().mode(Mode::Plan);
    let writing = ["write_file", "replace", "run_shell_command"];
    for spec in &specs {
        let looks = spec.kind.only_reads() || ["ask_user", "web_fetch"].contains(&spec.name.as_str());
        assert_eq!(planning.policy.forbids(spec, Mode::Plan), !looks, "{}", spec.name);
    }
    assert!(writing.iter().all(|name| forbidden(&planning).iter().any(|known| known == name)));
    // Some calls are denied, or some are allowed.
    let some = plain().tools(json!({"exclude": ["run_shell_command(rm)", "web_fetch"]}));
    assert!(forbidden(&some).iter().all(|name| name == "web_fetch"));
    let rule = json!([{"toolName": "run_shell_command", "commandPrefix": "ls", "decision": "allow"}]);
    let mut listing = plain().mode(Mode::Plan);
    assert_eq!(listing.policy.add(Tier::User, &rule), Vec::<String>::new());
    assert!(!forbidden(&listing).iter().any(|name| name == "run_shell_command"));
}

/// A number from the environment, for longer searches.
fn number(name: &str, otherwise: usize) -> usize {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(otherwise)
}

//! Tests of the registry of slash commands.

use super::*;

fn found(registry: &Registry, phrase: &str) -> Option<String> {
    registry.find(phrase).map(|(path, _)| path.join(" "))
}

#[test]
fn a_command_is_found_by_its_whole_name() {
    let registry = Registry::built_in();
    for (phrase, path) in [
        ("memory show", "memory show"),
        ("/memory show", "memory show"),
        ("memory", "memory show"),
        ("memory  reload", "memory refresh"),
        ("extensions", "extensions list"),
        ("list-extensions", "extensions list"),
        ("init", "init"),
    ] {
        assert_eq!(found(&registry, phrase).as_deref(), Some(path), "{phrase}");
    }
    let unknown = ["", "/", "memory forget", "memory add it", "show", "Memory", "//help", "help me", "extensions all"];
    for phrase in unknown {
        assert_eq!(found(&registry, phrase), None, "{phrase}");
    }
}

#[test]
fn a_command_with_sub_commands_can_be_run_itself() {
    let mut registry = Registry::default();
    let restore = Spec { subs: vec![Spec::group("list", "", vec![Spec::new("all", "")])], ..Spec::new("restore", "") };
    registry.register(restore).expect("the first");
    assert_eq!(found(&registry, "restore").as_deref(), Some("restore"));
    assert_eq!(found(&registry, "restore a"), None);
    assert_eq!(found(&registry, "restore list").as_deref(), Some("restore list all"));
    assert_eq!(found(&registry, "restore list some"), None);
}

#[test]
fn a_name_cannot_be_registered_twice() {
    let aliased = |name: &str, alias: &str| Spec { aliases: vec![alias.into()], ..Spec::new(name, "") };
    let twins = Spec::group("a", "", vec![Spec::new("b", ""), Spec::new("b", "")]);
    for (spec, taken) in [
        (Spec::new("help", ""), "help"),
        (aliased("assist", "help"), "help"),
        (aliased("assist", "memory reload"), "memory reload"),
        (Spec::new("list-extensions", ""), "list-extensions"),
        (twins, "a b"),
        (Spec::new("", ""), ""),
        (Spec::new("two words", ""), ""),
        (aliased("assist", " "), ""),
    ] {
        let mut registry = Registry::built_in();
        assert_eq!(registry.register(spec), Err(Taken(taken.into())));
        assert_eq!(registry, Registry::built_in());
    }
    let mut registry = Registry::built_in();
    let fine = aliased("assist", "memory help");
    assert_eq!(registry.register(fine.clone()), Ok(()));
    assert_eq!(registry.commands().last(), Some(&fine));
}

#[test]
fn a_custom_command_whose_name_is_taken_is_known_by_its_owner_too() {
    let mut registry = Registry::built_in();
    let mut add = |owner: &str, name: &str| registry.add_custom(owner, name, "");
    assert_eq!(add("workspace", "help").as_deref(), Some("workspace.help"), "built-in commands keep their names");
    assert_eq!(add("workspace", "git:log").as_deref(), Some("git:log"));
    assert_eq!(add("user", "git:log").as_deref(), Some("user.git:log"));
    assert_eq!(add("tools", "git:log").as_deref(), Some("tools.git:log"));
    assert_eq!(add("user", "git:log"), None);
    let typed = Typed { phrase: "/git:log it's  late".into(), args: Args::InPhrase };
    let (invocation, _) = registry.invoke(&typed).expect("it is there");
    assert_eq!(invocation, Invocation { path: vec!["git:log".into()], args: vec!["it's  late".into()] });
}

#[test]
fn typed_commands_become_invocations() {
    let registry = Registry::built_in();
    let invoke = |phrase: &str, args: Args| {
        let phrase = phrase.to_owned();
        let invoked = registry.invoke(&Typed { phrase, args });
        invoked.map(|(invocation, _)| (invocation.name(), invocation.args))
    };
    let line = |text: &str| Args::Line(text.into());
    let words = |words: &[&str]| Args::Words(words.iter().map(|w| w.to_string()).collect());
    let ok = |name: &str, args: &[&str]| Ok((name.to_owned(), args.iter().map(|w| w.to_string()).collect()));
    assert_eq!(invoke("memory add", line(" it's 5 o'clock ")), ok("memory add", &["it's 5 o'clock"]));
    assert_eq!(invoke("memory add", words(&["a", "b c"])), ok("memory add", &["a", "b c"]));
    assert_eq!(invoke("memory", line("")), ok("memory show", &[]));
    assert_eq!(invoke(" /memory add  it's late ", Args::InPhrase), ok("memory add", &["it's late"]));
    assert_eq!(invoke("/memory", Args::InPhrase), ok("memory show", &[]));
    assert_eq!(invoke("/tools a 'b c'", Args::InPhrase), ok("tools", &["a", "b c"]));
    assert_eq!(invoke("tools", line("a 'b c'")), ok("tools", &["a", "b c"]));
    for phrase in ["memory forget", "memory show all", "x"] {
        let phrase = phrase.to_owned();
        let unknown = Err(Unrunnable::Unknown { phrase: phrase.clone() });
        assert_eq!(invoke(&phrase, line("")), unknown);
    }
    for nothing in [line("  "), words(&[])] {
        let refused = invoke("memory add", nothing);
        let Err(Unrunnable::Incomplete { name, argument }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((name.as_str(), argument.name.as_str()), ("memory add", "text"));
    }
}

#[test]
fn lines_are_split_as_a_shell_does() {
    for (line, words) in [
        ("", &[][..]),
        ("  ", &[]),
        (" a  b\tc\n", &["a", "b", "c"]),
        ("'a b' \"c d\"e", &["a b", "c de"]),
        (r#""a \" \\ \n" '\'"#, &[r#"a " \ \n"#, r"\"]),
        (r"a\ b \' c\", &["a b", "'", "c"]),
        ("'' \"\"", &["", ""]),
        ("it's late", &["it's", "late"]),
        ("\"open end", &["\"open", "end"]),
        ("'ä b' ö", &["ä b", "ö"]),
    ] {
        assert_eq!(split(line), words, "{line:?}");
    }
}

#[test]
fn the_prompt_of_a_command_is_what_people_type() {
    let invocation = Invocation { path: vec!["memory".into(), "add".into()], args: vec!["be brief".into()] };
    assert_eq!(invocation.line(), "/memory add be brief");
    assert_eq!(serde_json::to_string(&invocation).expect("plain"), r#"{"path":["memory","add"],"args":["be brief"]}"#);
    assert_eq!(
        serde_json::from_str::<Invocation>(r#"{"path":["help"]}"#).expect("plain"),
        Invocation { path: vec!["help".into()], args: vec![] }
    );
}

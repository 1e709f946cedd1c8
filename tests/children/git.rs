//! Git in the environment of approved commands.

use crate::{Fixture, success};
use gemini_a2a::task::spec::{Display, Ending};

#[test]
fn git_works_in_the_environment_of_commands() {
    let fixture = Fixture::new();
    if fixture.run("git --version >/dev/null") != success("Output: (empty)", "") {
        eprintln!("skipped: there is no git here");
        return;
    }
    // After a commit git runs its maintenance in a background process.
    let command = "git init -q . && git config maintenance.auto false && git config gc.auto 0 && printf 'touch hooked' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit \
                   && echo a > a && git add a && git -c user.name=x -c user.email=x@x commit -qm first \
                   && git -c user.name=x -c user.email=x@x commit -q --amend && echo b > a && git diff | tail -1 && ls";
    assert_eq!(fixture.run(command), success("Output: +b\na\n", "+b\na\n"));
}

/// A commit has the name from the user's configuration or from the repository's; the rest of the user's configuration is not used.
#[test]
fn git_knows_the_user_and_nothing_else_of_their_configuration() {
    let home = Fixture::new();
    let path = std::env::var_os("PATH").expect("a PATH");
    let fixture = Fixture::with(vec![("PATH".into(), path), ("HOME".into(), home.dir.clone().into())]);
    if fixture.run("git --version >/dev/null") != success("Output: (empty)", "") {
        eprintln!("skipped: there is no git here");
        return;
    }
    let shown = |command: &str| match fixture.run(command) {
        Ending::Success { display: Display::Text { text }, .. } => text.to_string(),
        other => panic!("{other:?}"),
    };
    let put = |name: &str, text: &str| std::fs::write(home.dir.join(name), text).expect("it is writable");
    let commit = "commit -q --allow-empty -m x && git log -1 --format='%an <%ae> %cn <%ce>'";
    shown("git init -q . && git config maintenance.auto false && git config gc.auto 0");
    assert!(shown(&format!("git {commit}")).contains("Please tell me who you are"));

    let work = format!("[includeIf \"gitdir:{}/\"]\n\tpath = work\n", fixture.dir.display());
    put("work", "[user]\n\temail = ann@work\n[core]\n\tpager = evil\n");
    let evil = "[alias]\n\tx = !touch aliased\n[commit]\n\tgpgSign = true\n[core]\n\teditor = evil\n";
    put(".gitconfig", &format!("[user]\n\tname = Ann \\\"A\\\" B\n\temail = ann@home\n{evil}{work}"));
    assert_eq!(shown(&format!("git {commit}")), "Ann \"A\" B <ann@work> Ann \"A\" B <ann@work>\n");
    let settings = shown("git config --global --list; git x; ls");
    let expected = "user.name=Ann \"A\" B\nuser.email=ann@work\ngit: 'x' is not a git command";
    assert!(settings.starts_with(expected) && !settings.contains("aliased"), "{settings}");

    shown("git config user.name Bea");
    assert_eq!(shown(&format!("git {commit}")), "Bea <ann@work> Bea <ann@work>\n");
    assert_eq!(shown(&format!("git -c user.name=Cy {commit}")), "Cy <ann@work> Cy <ann@work>\n");
}

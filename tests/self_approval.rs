//! A tool's process may not approve the calls of its own agent, and none of its processes may outlive a cancel,
//! whatever they do to hide. The attacker is tests/self_approval/attacker.c: an approved command that tries to answer
//! another call's question, in every way that we know of.
//!
//! Each way is tried three times: the answer is refused and the user can still give it; a cancel ends all processes
//! of the attacker; and, as a check of the attacker itself, the same program started by the test does approve.
//! Everything runs as an ordinary user.

mod support;

#[path = "support/frame.rs"]
#[allow(dead_code, reason = "only what a client sends is needed here")]
mod frame;
#[path = "self_approval/run.rs"]
mod run;
#[path = "self_approval/user.rs"]
mod user;

use run::{Access, Attack, AttackerOrigin, Encoding, Fixture, Run};
use rustix::process::Signal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use support::eventually;
use user::{Programs, as_ordinary_user, as_root};

/// What an attack ends with.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    /// The server says 403.
    Refused,
    /// The server does not listen there, or says 403.
    NotConnected,
    /// All processes of the attacker are killed, whether or not the server has said 403 before.
    Killed,
    /// The attacker does not wait for its answer, and the server counts a refusal.
    Counted,
}

/// Whether the attacker can show that its way works when the test starts it.
#[derive(Clone, Copy, PartialEq)]
enum Control {
    Approves,
    None,
}

/// How the attacker's call ends once it has had its response.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// With its last process.
    ByItself,
    /// Only when somebody cancels it.
    ByCancel,
}

#[derive(Clone, Copy)]
struct Case {
    attack: Attack,
    outcome: Outcome,
    control: Control,
    end: End,
}

const fn case(way: &'static str) -> Case {
    let (access, prefix) = (Access::Local, "");
    let attack = Attack { way, encoding: Encoding::JsonRpc, origin: AttackerOrigin::SameTask, access, prefix };
    Case { attack, outcome: Outcome::Refused, control: Control::Approves, end: End::ByItself }
}

const fn in_words(encoding: Encoding) -> Case {
    Case { attack: Attack { encoding, ..case("plain").attack }, ..case("plain") }
}

/// A client of the Agent Client Protocol at this path.
const fn as_editor(way: &'static str, path: &'static str) -> Case {
    Case { attack: Attack { encoding: Encoding::Acp(path), ..case(way).attack }, ..case(way) }
}

const fn with_cast(way: &'static str, origin: AttackerOrigin) -> Case {
    Case { attack: Attack { origin, ..case(way).attack }, ..case(way) }
}

/// A way that cannot work from outside, because there it is something else.
const fn inside_only(outcome: Outcome, way: &'static str) -> Case {
    Case { outcome, control: Control::None, ..case(way) }
}

const CASES: [Case; 54] = [
    // The slow ones first.
    Case { end: End::ByCancel, ..inside_only(Outcome::Refused, "stops-supervisor") },
    case("fork-storm"),
    case("fork-chain"),
    // Who connects.
    case("plain"),
    case("double-fork"),
    case("new-session"),
    case("empty-environment"),
    case("hidden"),
    case("non-dumpable"),
    case("unreadable-binary"),
    case("sibling"),
    case("own-subreaper"),
    case("thread-descriptors"),
    case("zombie-leader"),
    case("namespaces"),
    // Over which socket.
    case("mptcp"),
    case("fast-open"),
    case("localhost"),
    case("any-address"),
    inside_only(Outcome::NotConnected, "second-loopback"),
    inside_only(Outcome::NotConnected, "loopback6"),
    case("mapped-address"),
    case("other-source"),
    case("kept-connection"),
    case("pipelined"),
    inside_only(Outcome::NotConnected, "inherited"),
    case("in-flight"),
    case("io-uring"),
    inside_only(Outcome::Counted, "closes-before-accept"),
    case("unix-socket"),
    case("unix-socket-of-a-dead-process"),
    // With help.
    case("relay"),
    with_cast("helped", AttackerOrigin::WithHelper),
    with_cast("plain", AttackerOrigin::SecondServer),
    with_cast("hidden", AttackerOrigin::SecondServer),
    Case { outcome: Outcome::Killed, control: Control::None, ..with_cast("orphans", AttackerOrigin::SecondServer) },
    // Against the supervisor and the server.
    inside_only(Outcome::Killed, "kills-supervisor"),
    inside_only(Outcome::Killed, "orphans"),
    inside_only(Outcome::Refused, "starves-supervisor"),
    inside_only(Outcome::Killed, "starves-server"),
    inside_only(Outcome::Refused, "limits-threads"),
    // In which encoding.
    in_words(Encoding::JsonRpcStream),
    in_words(Encoding::Rest),
    in_words(Encoding::Bare),
    in_words(Encoding::Session),
    in_words(Encoding::Native),
    as_editor("editor", "/acp"),
    as_editor("editor", "/ws/acp"),
    as_editor("editor", "/ws"),
    as_editor("editor-over-unix-socket", "/acp"),
    as_editor("editor-over-unix-socket", "/ws/acp"),
    as_editor("editor-over-unix-socket", "/ws"),
    // These approve nothing, even from outside.
    Case { control: Control::None, ..in_words(Encoding::OtherUpgrade) },
    Case { control: Control::None, ..in_words(Encoding::Prompt) },
];

/// A case at a server that authenticates its clients by credentials.
const fn with_access(access: Access, case: Case) -> Case {
    Case { attack: Attack { access, ..case.attack }, ..case }
}

/// All cases where the attacker has a credential, and further cases with the server's own Unix socket.
fn cases_with_token() -> Vec<Case> {
    let own_socket = [Access::TokenAtOwnSocket, Access::OwnSocket].into_iter().flat_map(|access| {
        let cases = [
            case("unix-socket"),
            case("unix-socket-of-a-dead-process"),
            as_editor("editor-over-unix-socket", "/acp"),
            as_editor("editor-over-unix-socket", "/ws/acp"),
        ];
        cases.map(|case| with_access(access, case))
    });
    CASES.into_iter().map(|case| with_access(Access::Token, case)).chain(own_socket).collect()
}

/// How many attacks are made at the same time. They mostly wait.
const AT_ONCE: usize = 4;

/// Runs all of these, several at a time, and fails with the names of those that failed.
fn each<T: Sync>(cases: &[T], name: impl Fn(&T) -> String + Sync, body: impl Fn(&T) + Sync) {
    // For one case alone, e.g. GEMINI_A2A_TEST_WAY=io-uring.
    let only = std::env::var("GEMINI_A2A_TEST_WAY").ok();
    let wanted = |case: &&T| only.as_ref().is_none_or(|only| name(case).contains(only));
    let queue = Mutex::new(cases.iter().filter(wanted));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().expect("nobody panics with it").next() else {
                        return;
                    };
                    if catch_unwind(AssertUnwindSafe(|| body(case))).is_err() {
                        failed.lock().expect("nobody panics with it").push(name(case));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

fn describe(case: &Case) -> String {
    let Attack { way, encoding, origin, access, .. } = case.attack;
    format!("{way} {encoding:?} {origin:?} {access:?}")
}

#[test]
fn no_tool_can_approve() {
    as_ordinary_user("no_tool_can_approve", |programs| assert_attacks_fail(programs, &CASES));
}

#[test]
fn no_tool_can_approve_with_a_credential() {
    as_ordinary_user("no_tool_can_approve_with_a_credential", |programs| {
        assert_attacks_fail(programs, &cases_with_token())
    });
}

fn assert_attacks_fail(programs: &Programs, cases: &[Case]) {
    let links = [Link::Tcp, Link::Unix].into_iter().cycle();
    let cases: Vec<(&Case, Link)> = cases.iter().zip(links).collect();
    each(&cases, |(case, _)| describe(case), |(case, over)| assert_attack_fails(programs, case, *over));
}

/// A tool that becomes another user is still a tool.
#[test]
fn no_tool_of_another_user_can_approve_with_a_credential() {
    as_root(|programs| {
        let prefix = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
        for way in ["plain", "double-fork", "kept-connection"] {
            let attack = Attack { access: Access::Token, prefix, ..case(way).attack };
            let fixture = Fixture::new(programs, attack);
            let run = fixture.begin("repel");
            fixture.open_to_everybody("repel");
            run.launch();
            check(&case(way), run.response().as_deref());
            assert!(!run.is_approved(), "{way}");
            run.refuse();
            run.release();
            run.until_nothing_is_left();
        }
    });
}

/// The connection over which the user answers in the end.
#[derive(Clone, Copy)]
enum Link {
    Tcp,
    Unix,
}

fn assert_attack_fails(programs: &Programs, case: &Case, over: Link) {
    let fixture = Fixture::new(programs, case.attack);
    let run = fixture.begin("repel");
    run.launch();
    let response = run.response();
    check(case, response.as_deref());
    assert!(!run.is_approved(), "{}: approved: {response:?}", describe(case));
    match case.outcome {
        Outcome::Killed => run.until_nothing_is_left(),
        Outcome::Counted => eventually("its request is carried out or refused", || {
            (run.is_approved() || fixture.refused_peers() > 0).then_some(())
        }),
        Outcome::Refused | Outcome::NotConnected => {}
    }
    assert!(!run.is_approved(), "{}: approved", describe(case));
    match over {
        Link::Tcp => run.refuse(),
        Link::Unix => run.refuse_over_socket(),
    }
    run.release();
    match case.end {
        End::ByItself => {}
        End::ByCancel => run.cancel(),
    }
    run.until_idle();
    run.until_nothing_is_left();
    assert!(!run.is_approved());
}

/// Checks the attacker's response.
fn check(case: &Case, response: Option<&str>) {
    let name = describe(case);
    let is_refused = response.is_some_and(|text| text.starts_with("HTTP/1.1 403 "));
    match (case.outcome, response) {
        (_, Some(text)) if text.starts_with("skipped:") => eprintln!("{name}: {text}"),
        (Outcome::Refused, _) => assert!(is_refused, "{name}: {response:?}"),
        (Outcome::NotConnected, Some(text)) => assert!(is_refused || text.starts_with("error:"), "{name}: {text}"),
        (Outcome::NotConnected, None) => panic!("{name}: no response"),
        (Outcome::Counted, _) => assert_eq!(response, Some("sent\n"), "{name}"),
        (Outcome::Killed, _) => assert!(response.is_none() || is_refused, "{name}: {response:?}"),
    }
}

#[test]
fn a_cancel_leaves_no_process_of_an_attacker() {
    as_ordinary_user("a_cancel_leaves_no_process_of_an_attacker", |programs| {
        each(&CASES, describe, |case| cancel(programs, case));
    });
}

fn cancel(programs: &Programs, case: &Case) {
    let fixture = Fixture::new(programs, case.attack);
    let run = fixture.begin("cancel");
    run.launch();
    run.response();
    run.cancel();
    run.until_nothing_is_left();
    assert!(!run.is_approved(), "{}", describe(case));
}

/// Checks the attacker itself: an attacker that does nothing would look like one that was refused.
#[test]
fn the_attacker_can_approve_if_it_is_not_a_tool() {
    as_ordinary_user("the_attacker_can_approve_if_it_is_not_a_tool", |programs| {
        let cases: Vec<Case> = CASES.into_iter().chain(cases_with_token()).collect();
        each(&cases, describe, |case| {
            if case.control == Control::Approves {
                approve(programs, case);
            }
        });
    });
}

fn approve(programs: &Programs, case: &Case) {
    let fixture = Fixture::new(programs, case.attack);
    let run = fixture.begin_control();
    let attackers = run.launch_outside();
    let response = run.response();
    let is_approved = match response.as_deref() {
        Some(text) if text.starts_with("skipped:") => true,
        Some(text) if text.starts_with("HTTP/1.1 ") => {
            eventually(&describe(case), || run.is_approved().then_some(true))
        }
        Some(_) | None => false,
    };
    run.release();
    for mut attacker in attackers {
        attacker.wait().expect("our own child");
    }
    run.until_nothing_is_left();
    assert!(is_approved, "{}: {response:?}", describe(case));
}

/// A process that has left its call's session and environment, and connected while the call ran.
#[test]
fn no_process_prompts_after_the_end_of_its_call() {
    as_ordinary_user("no_process_prompts_after_the_end_of_its_call", |programs| {
        let fixture = Fixture::new(programs, case("outlives").attack);
        let run = fixture.begin("repel");
        run.launch();
        run.until_idle();
        run.until_nothing_is_left();
        run.note("ended");
        assert_eq!(run.response(), None);
        run.refuse();
        assert!(!run.is_approved());
    });
}

/// A connection that the kernel makes when the call is over, because there was no room for it before.
#[test]
fn no_connection_of_a_tool_is_served_after_the_end_of_its_call() {
    as_ordinary_user("no_connection_of_a_tool_is_served_after_the_end_of_its_call", |programs| {
        let fixture = Fixture::new(programs, case("late").attack);
        let _keeper = fixture.keep_descriptors();
        let run = fixture.begin("repel");
        run.launch();
        let response = run.response().expect("what it could do");
        if response.starts_with("skipped:") {
            eprintln!("{response}");
            return;
        }
        run.until_nothing_is_left();
        eventually("the late connection is served or refused", || {
            (run.is_approved() || fixture.refused_peers() > 0).then_some(())
        });
        assert!(!run.is_approved());
        run.refuse();
    });
}

#[test]
fn a_cancel_ends_processes_that_are_hard_to_end() {
    const WAYS: [&str; 4] = ["stops-supervisor", "fork-bomb", "stopped", "ignores-signals"];
    as_ordinary_user("a_cancel_ends_processes_that_are_hard_to_end", |programs| {
        each(&WAYS, ToString::to_string, |way| {
            let fixture = Fixture::new(programs, case(way).attack);
            let run = fixture.begin_alone("cancel");
            run.launch();
            run.response().expect("it is ready");
            assert!(!run.living().is_empty());
            run.cancel();
            run.until_nothing_is_left();
        });
    });
}

/// A command may lower our limit of open files, so that no connection can be accepted any more.
#[test]
fn a_command_that_limits_the_servers_files_does_not_keep_users_out() {
    as_ordinary_user("a_command_that_limits_the_servers_files_does_not_keep_users_out", |programs| {
        let fixture = Fixture::new(programs, case("limits-files").attack);
        let run = fixture.begin_alone("cancel");
        run.launch();
        run.response();
        run.cancel();
        run.until_nothing_is_left();
        assert_eq!(fixture.refused_peers(), 0);
    });
}

#[test]
fn a_tool_cannot_inspect_the_server_or_its_supervisor() {
    as_ordinary_user("a_tool_cannot_inspect_the_server_or_its_supervisor", |programs| {
        let fixture = Fixture::new(programs, case("looks-inside").attack);
        let run = fixture.begin_alone("repel");
        run.launch();
        let response = run.response().expect("its findings");
        let lines: Vec<&str> = response.lines().collect();
        assert_eq!(lines.len(), 30, "{response}");
        for line in lines {
            assert!(line.ends_with("Operation not permitted") || line.ends_with("Permission denied"), "{response}");
        }
        run.release();
        run.until_idle();
    });
}

/// Two commands of one server, each with a process that has left its session, its parent and its environment.
fn with_two_commands(programs: &Programs, end_one: impl FnOnce(&Run)) {
    let fixture = Fixture::new(programs, case("hidden").attack);
    let runs = [fixture.begin_alone("repel"), fixture.begin_alone("cancel")];
    for run in &runs {
        run.launch();
        run.response().expect("it is refused");
    }
    let [one, other] = &runs;
    let untouched = other.living();
    assert!(untouched.len() >= 3, "supervisor, program and hidden process: {untouched:?}");
    end_one(one);
    one.until_nothing_is_left();
    assert_eq!(other.living(), untouched);
    other.cancel();
    other.until_nothing_is_left();
}

#[test]
fn cancelling_one_of_two_commands_leaves_the_other_alone() {
    as_ordinary_user("cancelling_one_of_two_commands_leaves_the_other_alone", |programs| {
        with_two_commands(programs, |one| one.cancel());
    });
}

#[test]
fn only_orphans_of_a_killed_supervisor_are_killed() {
    as_ordinary_user("only_orphans_of_a_killed_supervisor_are_killed", |programs| {
        with_two_commands(programs, |one| one.kill_supervisor());
    });
}

#[test]
fn no_process_outlives_the_server() {
    const WAYS: [&str; 4] = ["hidden", "stops-supervisor", "fork-bomb", "stopped"];
    as_ordinary_user("no_process_outlives_the_server", |programs| {
        let signals = [Signal::TERM, Signal::KILL];
        let cases: Vec<(&str, Signal)> = WAYS.iter().flat_map(|way| signals.map(|signal| (*way, signal))).collect();
        each(
            &cases,
            |(way, signal)| format!("{way} {signal:?}"),
            |(way, signal)| {
                let fixture = Fixture::new(programs, case(way).attack);
                let run = fixture.begin_alone("repel");
                run.launch();
                run.response().expect("it is ready");
                assert!(!run.living().is_empty());
                run.end_server(*signal);
                run.until_nothing_is_left();
            },
        );
    });
}

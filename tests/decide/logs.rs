//! The logs that most cases begin with. The number in a comment is the position of the log's last event.

use crate::task::*;
use gemini_a2a::task::log::event::{End, Event, Lifecycle, Outcome};
use gemini_a2a::task::spec::Choice;

/// 1: created, nothing said yet.
pub fn fresh() -> Vec<Event> {
    vec![created(Lifecycle::Conversational)]
}

pub fn log(start: Vec<Event>, more: &[Event]) -> Vec<Event> {
    let mut events = start;
    events.extend_from_slice(more);
    events
}

/// 3: the model is asked, job 3.
pub fn thinking() -> Vec<Event> {
    log(fresh(), &[prompted(1, "go"), began(1)])
}

/// 4: the task is a command, which runs as job 4.
pub fn commanding() -> Vec<Event> {
    vec![created_to_run("memory show"), prompted(1, "/memory show x"), began(1), Event::CommandBegan]
}

/// 4: the model was busy, timer 4.
pub fn backing_off() -> Vec<Event> {
    log(thinking(), &[backed_off(1, 0, 5_000)])
}

/// 4: an edit and a command are prepared by job 4.
pub fn preparing() -> Vec<Event> {
    log(thinking(), &[answered(&[edit(), shell()])])
}

/// 9: both are asked about and the pause is announced.
pub fn waiting() -> Vec<Event> {
    let (e, s) = (edit(), shell());
    log(preparing(), &[planned(&e), planned(&s), asked(&e), asked(&s), Event::Paused])
}

/// 12: the edit runs as job 12, the command is still asked about.
pub fn editing() -> Vec<Event> {
    let e = edit();
    let yes = chosen(&e, Choice::ProceedOnce);
    log(waiting(), &[yes, ready(&e), started(&e)])
}

/// 13: the file of the edit had changed; the edit is planned again by job 13.
pub fn replanning() -> Vec<Event> {
    log(editing(), &[stale(&edit())])
}

/// 12: the edit was allowed and a restart came before it began; the command is still asked about.
pub fn suspended() -> Vec<Event> {
    let e = edit();
    log(waiting(), &[chosen(&e, Choice::ProceedOnce), ready(&e), Event::Interrupted { text: RESTARTED.into() }])
}

/// 5: the first turn is over.
pub fn idle() -> Vec<Event> {
    log(thinking(), &[answered(&[]), turn_ended(1, End::Done)])
}

/// 5: the first turn ended because a credential is missing.
pub fn unauthorized() -> Vec<Event> {
    let auth = || "Who are you?".to_owned();
    log(thinking(), &[concluded(Outcome::Auth(auth())), turn_ended(1, End::NeedsAuth(auth()))])
}

/// 4: canceled while thinking.
pub fn over() -> Vec<Event> {
    log(thinking(), &[canceled()])
}

pub const RESTARTED: &str = "The server was restarted while the agent was working. What had finished is kept; \
                         send a message to go on.";

pub fn one_shot(events: Vec<Event>) -> Vec<Event> {
    let mut events = events;
    events[0] = created(Lifecycle::OneShot);
    events
}

pub fn every_phase() -> [(&'static str, Vec<Event>); 12] {
    [
        ("fresh", fresh()),
        ("thinking", thinking()),
        ("commanding", commanding()),
        ("backing off", backing_off()),
        ("preparing", preparing()),
        ("waiting", waiting()),
        ("editing", editing()),
        ("replanning", replanning()),
        ("suspended", suspended()),
        ("idle", idle()),
        ("unauthorized", unauthorized()),
        ("over", over()),
    ]
}

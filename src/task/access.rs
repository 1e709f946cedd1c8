//! Who may do what: subjects, their rights, and the table of rights that calls need.
//!
//! A subject owns the tasks that it created. A credential is one secret of a subject and has rights of its own. In the access mode
//! `local` every admitted client is the operator, who has all rights.

pub mod credentials;
#[cfg(feature = "identity")]
pub mod jwt;
pub mod ticket;
pub mod token;

use crate::base::id::{Subject, TaskId, Tenant};
use crate::base::text::words::words;
use crate::task::call::{Call, Create, Open, Say};
use crate::task::log::ownership::InboxCall;
use crate::task::machine::job::Said;
use crate::task::spec::Choice;
use std::fmt;
use std::sync::Arc;

words! {
    /// What a credential may do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Right {
        /// Look at tasks and follow them.
        View = "view",
        /// Create tasks, send prompts, stop turns.
        Prompt = "prompt",
        /// Answer questions and run commands. This is a shell as the operator's user.
        Approve = "approve",
        /// All of that on the tasks of every subject, and what concerns the whole server.
        Admin = "admin",
    }
}

words! {
    /// What a client has to prove.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum AccessMode {
        /// That its process is the operator's.
        #[default]
        Local = "local",
        /// That it has a credential.
        Token = "token",
    }
}

/// A set of rights.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    pub const NONE: Rights = Rights(0);
    pub const ALL: Rights = Rights(0b1111);

    /// Whether the set contains this right. The right `admin` implies the others.
    pub fn has(self, right: Right) -> bool {
        self.0 & (bit(right) | bit(Right::Admin)) != 0
    }

    pub fn and(self, right: Right) -> Rights {
        Rights(self.0 | bit(right))
    }

    /// The rights of both sets.
    pub fn union(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// The first of the needed rights that this set does not have.
    pub fn lacks(self, needed: Rights) -> Option<Right> {
        needed.iter().find(|right| !self.has(*right))
    }

    /// The rights of this set that the other one has too.
    pub fn within(self, other: Rights) -> Rights {
        self.iter().filter(|right| other.has(*right)).collect()
    }

    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |right| self.0 & bit(*right) != 0)
    }
}

fn bit(right: Right) -> u8 {
    1 << right as u8
}

impl FromIterator<Right> for Rights {
    fn from_iter<T: IntoIterator<Item = Right>>(rights: T) -> Rights {
        rights.into_iter().fold(Rights::NONE, Rights::and)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Right::word)).finish()
    }
}

/// A part of the tasks whose contexts are its own: those of a subject in a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Partition {
    pub tenant: Tenant,
    pub owner: Subject,
}

/// Who makes a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub subject: Subject,
    /// The id of the credential that was sent. None: the connection itself shows that the client is a process of the operator.
    pub credential: Option<Arc<str>>,
    /// The subject that the valid token of a proxy names in addition to the credential. It is only recorded in the audit.
    pub identity: Option<Arc<str>>,
    pub rights: Rights,
    /// The workspaces that it may use are below these directories; empty: all that the server allows.
    pub roots: Arc<[String]>,
    /// The only tenant that it may use.
    pub tenant: Option<Tenant>,
    /// The only task that it may use, if a ticket names one.
    pub task: Option<TaskId>,
    /// When its credential, token or ticket expires, in Unix milliseconds.
    pub until: Option<u64>,
}

impl Principal {
    /// The user who runs the server.
    pub fn operator() -> Principal {
        Principal {
            subject: Subject::default(),
            credential: None,
            identity: None,
            rights: Rights::ALL,
            roots: Arc::new([]),
            tenant: None,
            task: None,
            until: None,
        }
    }

    /// This principal, with the subject that the token of a proxy names.
    pub fn with_identity(&self, other: &Subject) -> Principal {
        Principal { identity: Some(other.as_str().into()), ..self.clone() }
    }

    /// A client without a credential.
    pub fn nobody() -> Principal {
        Principal {
            subject: "nobody".into(),
            credential: None,
            identity: None,
            rights: Rights::NONE,
            roots: Arc::new([]),
            tenant: None,
            task: None,
            until: None,
        }
    }

    /// Whether it is a client without a credential.
    pub fn is_nobody(&self) -> bool {
        self.credential.is_none() && self.rights == Rights::NONE
    }

    /// Whether it may see a task. To a client that may not see a task, the task does not exist.
    pub fn sees(&self, owner: &Subject, is_shared: bool) -> bool {
        self.rights.has(Right::Admin) || *owner == self.subject || is_shared
    }

    /// Whether it may manage the task's webhooks, which send the content of the task to another server.
    pub fn owns(&self, owner: &Subject) -> bool {
        self.rights.has(Right::Admin) || *owner == self.subject
    }

    /// Whether it may use the workspace with this path.
    pub fn may_work_in(&self, path: &str) -> bool {
        let is_below = |root: &String| {
            let rest = path.strip_prefix(root.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.roots.is_empty() || self.roots.iter().any(is_below)
    }
}

/// The rights that a call needs. A message that answers a question in plain text cannot be recognised as an answer yet: see
/// [`Needed::Either`].
pub fn needed(call: &Call) -> Needed {
    use Right::{Admin, Approve, Prompt, View};
    let one = |right| Needed::All(Rights::NONE.and(right));
    match call {
        Call::Say(say) => of_message(say),
        Call::Create(create) | Call::Open(Open::New(create)) => Needed::All(of_new_task(create)),
        // The command has a right of its own, which is checked when it is found.
        Call::Execute(execute) => Needed::All(of_new_task(&execute.create)),
        Call::Card | Call::Health | Call::Live | Call::Ready => Needed::All(Rights::NONE),
        Call::Open(Open::Load(known) | Open::Resume(known)) => {
            let changes = known.servers.is_some() || !known.directories.is_empty();
            one(if changes { Prompt } else { View })
        }
        Call::Commands
        // With the right to view alone, no live session is created: the call is refused later if there is none.
        | Call::Session
        | Call::Get { .. }
        | Call::List(_)
        | Call::Subscribe { .. }
        | Call::Unsubscribe { .. }
        | Call::Blob { .. }
        | Call::Metadata { .. }
        | Call::AllMetadata
        | Call::About
        | Call::Briefs
        | Call::Clients
        | Call::Files { .. }
        | Call::Introduce(_)
        | Call::Open(Open::Live)
        | Call::Sessions { .. }
        // The rights for the answered question are checked later, when the question is known.
        | Call::Reply { .. }
        // It takes back a request of the same client, whose rights were checked.
        | Call::Recall { .. }
        | Call::ExtendedCard
        // A ticket is for sockets, and allows no more than its credential.
        | Call::Ticket(_)
        | Call::Join(_) => one(View),
        Call::Renew { .. }
        | Call::Cancel { .. }
        | Call::Abort { .. }
        | Call::Drop { .. }
        | Call::TakeBack { .. }
        | Call::Leave { .. }
        | Call::Export { .. }
        | Call::Push { .. } => one(Prompt),
        Call::Permissions { revoke, .. } if revoke.is_empty() => one(View),
        Call::Tune { .. } | Call::Shell { .. } | Call::Permissions { .. } => one(Approve),
        Call::Delete { .. } | Call::Metrics => one(Admin),
    }
}

/// The rights that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    All(Rights),
    /// One of these two: the text may be a prompt or an answer, which depends on the state of the task.
    Either(Right, Right),
}

impl Needed {
    /// The right that is missing.
    pub fn missing(self, rights: Rights) -> Option<Right> {
        match self {
            Needed::All(needed) => rights.lacks(needed),
            Needed::Either(one, other) => (!rights.has(one) && !rights.has(other)).then_some(one),
        }
    }
}

fn of_message(say: &Say) -> Needed {
    let is_plain = say.push.is_none() && say.create.settings.auto_execute != Some(true);
    if say.said.answers.is_empty() && is_plain {
        Needed::Either(Right::Prompt, Right::Approve)
    } else {
        Needed::All(of_known_message(say))
    }
}

/// The rights for a message of which it is known whether it answers a question.
pub fn of_known_message(say: &Say) -> Rights {
    let mut needed = of_content(&say.said);
    if say.push.is_some() {
        needed = needed.and(Right::Prompt);
    }
    if say.create.settings.auto_execute == Some(true) {
        needed = needed.and(Right::Approve);
    }
    needed
}

/// The rights for the prompt and the answers in a message.
fn of_content(said: &Said) -> Rights {
    let mut needed = Rights::NONE;
    if said.answers.is_empty() || said.message.has_prompt() {
        needed = needed.and(Right::Prompt);
    }
    if !said.answers.is_empty() {
        needed = needed.and(Right::Approve);
    }
    if said.answers.iter().any(|answer| answer.option == Choice::ProceedAlwaysAndSave.word()) {
        needed = needed.and(Right::Admin);
    }
    needed
}

/// The rights for a request to the owner of a task that came through another instance.
pub fn of_inbox_call(call: &InboxCall) -> Rights {
    match call {
        InboxCall::Cancel | InboxCall::CancelTurn { .. } | InboxCall::Abort { .. } | InboxCall::Drop { .. } => {
            Rights::NONE.and(Right::Prompt)
        }
        InboxCall::Answer { said } => of_content(said),
    }
}

/// Whether a call makes the agent work, which costs money.
pub fn is_prompt(call: &Call) -> bool {
    match call {
        Call::Say(say) => say.said.answers.is_empty() || say.said.message.has_prompt(),
        Call::Execute(_) => true,
        _ => false,
    }
}

fn of_new_task(create: &Create) -> Rights {
    let prompt = Rights::NONE.and(Right::Prompt);
    if create.settings.auto_execute == Some(true) { prompt.and(Right::Approve) } else { prompt }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_implies_the_other_rights_and_no_other_right_does() {
        for right in Right::ALL {
            let only = Rights::NONE.and(right);
            for other in Right::ALL {
                assert_eq!(only.has(other), right == other || right == Right::Admin, "{right:?} {other:?}");
            }
        }
        assert_eq!(Rights::NONE.lacks(Rights::ALL), Some(Right::View));
        assert_eq!(Rights::NONE.and(Right::Prompt).lacks(Rights::NONE.and(Right::Approve)), Some(Right::Approve));
        assert_eq!(Rights::ALL.lacks(Rights::ALL), None);
    }

    #[test]
    fn narrowing_never_adds_a_right() {
        let [view, prompt] = [Right::View, Right::Prompt].map(|right| Rights::NONE.and(right));
        assert_eq!(Rights::ALL.within(view), view);
        assert_eq!(view.within(prompt), Rights::NONE);
        // `admin` implies `view`, so its owner may get a ticket for `view`.
        assert_eq!(view.within(Rights::NONE.and(Right::Admin)), view);
        assert_eq!(Rights::NONE.and(Right::Admin).within(view), Rights::NONE);
    }

    #[test]
    fn a_task_is_seen_by_its_owner_by_admins_and_by_all_if_it_is_shared() {
        let ann = Principal { subject: "ann".into(), rights: Rights::NONE.and(Right::View), ..Principal::operator() };
        let admin =
            Principal { rights: Rights::NONE.and(Right::Admin), subject: "root".into(), ..Principal::operator() };
        assert!(ann.sees(&"ann".into(), false) && !ann.sees(&"bob".into(), false) && ann.sees(&"bob".into(), true));
        assert!(admin.sees(&"bob".into(), false));
    }

    #[test]
    fn roots_are_whole_directories() {
        let ann = Principal { roots: Arc::new(["/srv/dev".into(), "/w/".into()]), ..Principal::operator() };
        for path in ["/srv/dev", "/srv/dev/a", "/w", "/w/x"] {
            assert!(ann.may_work_in(path), "{path}");
        }
        for path in ["/srv/developer", "/srv", "/", "", "/wx"] {
            assert!(!ann.may_work_in(path), "{path}");
        }
        assert!(Principal::operator().may_work_in("/anywhere"));
    }
}

//! Slash commands that restore a task to an earlier point. The command is a task of its own, whose worker reads the log of the restored task
//! and changes the files. While it runs, the restored task begins no turn; at its end, the changes are recorded in that task's log.

use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::Core;
use crate::core::requests::Caller;
use crate::core::requests::dispatch::IN_TURN;
use crate::task::definitions::slash::{Commanded, Invocation};
use crate::task::fault::{Fault, FaultKind};
use crate::task::log::restored::Restored;
use crate::task::machine::decide::Input;
use crate::task::machine::job::NoteBody;
use crate::task::restore::arguments::{Name, RestoreRequest};

impl Core {
    /// The task that a command restores or shows: the one that an argument names, by its id or the id of a point; otherwise the one that the
    /// client is at, or the live session. Without these, commands that only list or restore by a point take the task that changed last;
    /// `/undo` and `/redo` take none, because that could be the wrong task.
    pub(in crate::core::requests) fn task_to_restore(
        &self,
        command: &Invocation,
        about: Option<&TaskId>,
        caller: &Caller,
    ) -> Option<TaskId> {
        let name = Name::from_word(command.path.first()?)?;
        let is_known = |id: &str| self.sees(caller, &id.into());
        let named = command.args.iter().find_map(|word| {
            let of_point = word.rsplit_once('-').filter(|(_, seq)| seq.parse::<u64>().is_ok()).map(|(task, _)| task);
            [Some(word.as_str()), of_point].into_iter().flatten().find(|id| is_known(id))
        });
        let newest = || {
            let tasks = self.tasks.known.iter().filter(|(_, brief)| {
                // Commands are tasks too.
                caller.sees(brief) && !brief.title.starts_with('/')
            });
            tasks.max_by_key(|(_, brief)| brief.at).map(|(task, _)| task.clone())
        };
        let present = about.or(self.live_session(caller));
        named.map(TaskId::from).or_else(|| present.cloned()).or_else(|| match name {
            Name::Restore | Name::Diff => newest(),
            Name::Undo | Name::Redo => None,
        })
    }

    /// Prepares the command: it gets the task and the client before its arguments. Returns the task if the command may change it.
    pub(in crate::core::requests) fn prepare_restore(
        &self,
        command: &mut Invocation,
        name: Name,
        about: Option<&TaskId>,
        caller: &Caller,
    ) -> Result<Option<TaskId>, Fault> {
        let task = self.task_to_restore(command, about, caller);
        let words = command.path[1..].iter().chain(&command.args);
        let words = words.filter(|word| task.as_ref().is_none_or(|task| task.as_str() != word.as_str()));
        let words: Vec<String> = words.cloned().collect();
        let request = RestoreRequest::parse(name, &words).map_err(Fault::params)?;
        let loaded = task.as_ref().and_then(|task| self.tasks.get(task));
        if let Some(why) = loaded.and_then(|loaded| loaded.broken.as_ref()) {
            let message = format!("The task's journal cannot be written: {why}. Try again later.");
            return Err(Fault::new(FaultKind::Storage, message));
        }
        if request.changes() && loaded.is_some_and(|loaded| !loaded.state.can_restore() || self.is_restoring(loaded)) {
            return Err(Fault::params(IN_TURN));
        }
        let given = [task.as_ref().map(TaskId::to_string).unwrap_or_default()];
        command.args =
            given.into_iter().chain([caller.by.client.clone(), caller.by.via.clone()]).chain(words).collect();
        Ok(task.filter(|_| request.changes()))
    }

    /// Notes that a command restores the task, which begins no turn before the command has ended.
    pub(in crate::core::requests) fn begin_restore(&mut self, task: &TaskId, command: TaskId) {
        if let Some(loaded) = self.tasks.get_mut(task) {
            loaded.restored_by = Some(command);
        }
    }

    /// A command has ended. If it restored a task, records the changes there, and lets the task continue.
    pub(in crate::core) fn end_restore(&mut self, command: &TaskId, body: &NoteBody, now: Now) {
        let Some(invocation) = self.tasks.get(command).and_then(|loaded| loaded.state.created.command.clone()) else {
            return;
        };
        let is_restore = invocation.path.first().is_some_and(|name| Name::from_word(name).is_some());
        let Some(task) = invocation.args.first().filter(|_| is_restore).map(|task| TaskId::from(task.as_str())) else {
            return;
        };
        match self.tasks.get_mut(&task) {
            Some(loaded) if loaded.restored_by.as_ref() == Some(command) => loaded.restored_by = None,
            Some(_) | None => return,
        }
        match body {
            NoteBody::Commanded(Ok(Commanded::Restored { restored, .. })) => self.record_restore(&task, restored, now),
            _ => self.advance(&task, now),
        }
    }

    fn record_restore(&mut self, task: &TaskId, restored: &Restored, now: Now) {
        // No turn could begin meanwhile, so it is not refused.
        let _ = self.drive(task, Input::Restore(restored.clone()), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::Dialect;
    use crate::a2a::Form;
    use crate::base::id::Seq;
    use crate::core;
    use crate::core::connections::connection::Peer;
    use crate::core::test_core::TestCore;
    use crate::task::call::{Call, Create, Execute, Mode, TaskTraits};
    use crate::task::definitions::slash::{Args, Typed};
    use crate::task::log::restored::Conversation;
    use crate::task::message::Source;
    use serde_json::{Value, json};

    fn run(test: &mut TestCore, line: String) -> Value {
        let create = Create { context: None, settings: Default::default(), traits: TaskTraits::SESSION };
        let typed = Typed { phrase: line, args: Args::InPhrase };
        test.ask(
            Dialect::NATIVE,
            Call::Execute(Execute { typed, about: None, create, mode: Mode::Now, otherwise: None }),
        )
    }

    /// Runs a command whose job starts when its log is flushed.
    fn start(test: &mut TestCore, line: String) -> TaskId {
        let answer = run(test, line);
        let command = TaskId::from(answer["ok"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")));
        let upto = test.state(&command).seq;
        test.core.input(core::Input::Synced { task: command.clone(), upto, result: Ok(()) }, test.now);
        test.turns();
        assert_eq!(test.jobs.last().map(|job| &job.task), Some(&command));
        command
    }

    fn undone() -> NoteBody {
        let by = Source::new("ann", "test");
        let (files, conversation) = (Vec::new(), Conversation::Rewound);
        let restored = Box::new(Restored { to: Seq(3), call: None, files, conversation, items: 0, by });
        NoteBody::Commanded(Ok(Commanded::Restored { restored, text: "done".into(), data: json!(1) }))
    }

    #[test]
    fn a_task_begins_no_turn_while_it_is_restored() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        let refused = run(&mut test, format!("/undo {task}"));
        assert_eq!(refused["error"]["message"], IN_TURN, "the first turn is under way");
        test.end_turn();
        start(&mut test, format!("/undo {task}"));
        assert_eq!(run(&mut test, format!("/undo {task}"))["error"]["message"], IN_TURN, "once at a time");
        start(&mut test, format!("/restore list {task}"));
        test.jobs.pop();
        test.say(&task);
        assert_eq!((test.state(&task).turn.number, test.state(&task).queue.len()), (1, 1), "the prompt waits");
        test.note(undone());
        let state = test.state(&task);
        assert_eq!((state.turn.number, state.queue.len(), state.shown_history(0).len()), (2, 0, 1));
        assert_eq!(state.history.len(), 3);
    }

    #[test]
    fn a_command_that_fails_lets_the_task_go_on() {
        for body in [NoteBody::Died("no luck".into()), NoteBody::Commanded(Err("no luck".into()))] {
            let mut test = TestCore::new();
            let task = test.begin(Dialect::RPC_03, None);
            test.end_turn();
            start(&mut test, format!("/undo {task}"));
            test.say(&task);
            test.note(body);
            let state = test.state(&task);
            assert_eq!((state.turn.number, state.shown_history(0).len()), (2, 3));
            assert!(test.core.tasks[&task].restored_by.is_none());
        }
    }

    #[test]
    fn a_restore_that_was_canceled_is_recorded_all_the_same() {
        let mut test = TestCore::new();
        let task = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        let command = start(&mut test, format!("/undo {task}"));
        test.cancel(&command);
        test.note(undone());
        assert_eq!(test.state(&task).shown_history(0).len(), 0);
    }

    #[test]
    fn tasks_are_found_by_their_ids_and_those_of_points() {
        let mut test = TestCore::new();
        assert_eq!(run(&mut test, "/undo 1 2".into())["error"]["reason"], "INVALID_PARAMS");
        let task = test.begin(Dialect::RPC_03, None);
        test.end_turn();
        let caller = Caller {
            conn: test.core.opened(Peer::SameUser, test.now),
            form: Form::of(Dialect::NATIVE),
            by: Source::new("ann", "test"),
            principal: test.principal.clone(),
        };
        let find = |line: &str| {
            let typed = Typed { phrase: line.into(), args: Args::InPhrase };
            let (command, _) = test.core.settings.commands.invoke(&typed).expect("a command");
            test.core.task_to_restore(&command, None, &caller)
        };
        let found = Some(task.clone());
        assert_eq!(find(&format!("/restore {task}-3")), found);
        assert_eq!(find(&format!("/undo 2 {task}")), found);
        assert_eq!(find("/restore"), found, "the last one");
        assert_eq!(find("/undo"), None, "that is not sure enough");
        assert_eq!(find("/stats"), None);
    }
}

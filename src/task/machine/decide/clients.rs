//! Inputs of clients: prompts, answers to questions, stopping a turn, cancellation. Only these can be refused, and a refused one changes nothing.

use super::inquiries::{valid_replies, without_answers};
use super::time::is_in_turn;
use super::*;
use crate::task::log::answer::Finish;

/// An answer to an open question, with an option that is on offer.
struct Picked<'a> {
    call: &'a CallState,
    plan: &'a Plan,
    pick: &'a Pick,
    choice: Choice,
}

impl Deciding<'_> {
    pub(in crate::task) fn say(&mut self, said: Said, by: Source) -> Result<(), Refusal> {
        let key = said.delivery.key.as_ref();
        if key.is_some_and(|key| self.state.keys.iter().any(|known| *known == (by.client.clone(), key.clone()))) {
            // The client did not see that the prompt was accepted and has sent it again.
            return Ok(());
        }
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        let has_prompt = said.message.has_prompt() || said.answers.is_empty();
        let picks = valid_picks(self.state, &said.answers)?;
        let replies = valid_replies(self.state, &said.answers)?;
        let is_late = picks.is_empty() && replies.is_empty();
        if let (Some(first), true, false) = (said.answers.first(), is_late, has_prompt) {
            return Err(Refusal::NotPending(first.call.clone()));
        }
        if has_prompt && self.state.queue.len() >= self.rules.limits.queued_prompts {
            return Err(Refusal::QueueFull);
        }
        if self.state.suspended {
            self.push(Event::Resumed);
        }
        let message = if replies.is_empty() { said.message } else { without_answers(&said.message) };
        self.reply_all(replies, &by);
        let mut always = self.state.always.clone();
        for picked in &picks {
            always.extend(self.answer_call(picked, &by));
        }
        if always.len() > self.state.always.len() {
            self.answer_covered(&picks, &always, &by);
        }
        if has_prompt {
            let turn = self.state.last_turn + 1;
            self.push(Event::Prompted { message, by, turn, delivery: said.delivery });
        }
        Ok(())
    }

    /// Records the answer to a call and what follows from it. Returns the rules that it grants.
    fn answer_call(&mut self, Picked { call, plan, pick, choice }: &Picked, by: &Source) -> Vec<Rule> {
        let (choice, rules) = (*choice, self.granted(call, plan, *choice));
        let call = call.id().clone();
        self.push(Event::CallAnswered {
            call: call.clone(),
            choice,
            by: by.clone(),
            edited: pick.edited.clone().filter(|_| plan.question.is_edit()),
            answers: pick.answers.clone().filter(|_| plan.question.asks_the_user()),
            rules: rules.clone(),
        });
        match choice {
            Choice::ProceedOnce
            | Choice::ProceedAlways
            | Choice::ProceedAlwaysTool
            | Choice::ProceedAlwaysServer
            | Choice::ProceedAlwaysAndSave => {
                self.push(Event::CallReady { call, confinement: Confinement::None });
            }
            Choice::Cancel => self.end_call(call, refused(plan)),
        }
        // The option was offered, but the operator may have withdrawn the permission to save rules since.
        if choice == Choice::ProceedAlwaysAndSave && self.rules.grant.saving {
            for rule in &rules {
                self.effect(Effect::Save { rule: Box::new(rule.clone()) });
            }
        }
        rules
    }

    /// Answers the other open questions that an "always" answer covers, because they would not be asked any more.
    fn answer_covered(&mut self, picks: &[Picked], always: &[Rule], by: &Source) {
        let asked = self.state.asked().filter(|call| call.stage == Stage::Asked);
        for call in asked.filter(|call| !picks.iter().any(|picked| picked.call.id() == call.id())) {
            let ruling = call.plan.as_ref().map(|plan| self.ruling(call, plan, always));
            let Some(Ruling { verdict: Verdict::Allow, confinement, .. }) = ruling else { continue };
            self.push(Event::CallAnswered {
                call: call.id().clone(),
                choice: Choice::ProceedOnce,
                by: by.clone(),
                edited: None,
                answers: None,
                rules: Vec::new(),
            });
            self.push(Event::CallReady { call: call.id().clone(), confinement });
        }
    }

    /// The rules that an answer creates for other calls.
    fn granted(&self, call: &CallState, plan: &Plan, choice: Choice) -> Vec<Rule> {
        let ToolFacts { name, origin, .. } = self.tool(call).planned(plan);
        policy::always(name, &origin, &call.request.args, plan, choice, self.state.mode)
    }

    pub(in crate::task) fn cancel(&mut self) -> Result<(), Refusal> {
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        self.stop_everything("The task was canceled.");
        let text = "Task canceled by user request.".to_owned();
        self.push(Event::Closed { state: Final::Canceled, text: Some(text) });
        Ok(())
    }

    /// Withdraws a queued prompt.
    pub(in crate::task) fn drop_prompt(&mut self, turn: u32, by: Source) -> Result<(), Refusal> {
        if !self.state.queue.iter().any(|queued| queued.turn == turn) {
            return Err(Refusal::NotQueued(turn));
        }
        self.push(Event::Dropped { turn, by });
        Ok(())
    }

    /// Sets the mode and the model of later requests. The modes without approval need the operator's permission.
    pub(in crate::task) fn tune(
        &mut self,
        mode: Option<Mode>,
        model: Option<String>,
        by: Source,
    ) -> Result<(), Refusal> {
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        let is_granted = |mode: Mode| match mode {
            Mode::Plan | Mode::Default => true,
            Mode::AutoEdit => self.state.created.trusted,
            Mode::Yolo => self.state.created.mode == Mode::Yolo || self.rules.grant.auto_execute,
        };
        if let Some(mode) = mode.filter(|mode| !is_granted(*mode)) {
            return Err(Refusal::NotGranted(mode));
        }
        let mode = mode.filter(|mode| *mode != self.state.mode);
        let model = model.filter(|model| **model != *self.state.requested_model);
        if mode.is_some() || model.is_some() {
            self.push(Event::Tuned { mode, model, directories: None, by });
        }
        Ok(())
    }

    /// Sets the additional directories.
    pub(in crate::task) fn include(&mut self, directories: Vec<String>, by: Source) -> Result<(), Refusal> {
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        if directories != *self.state.directories {
            self.push(Event::Tuned { mode: None, model: None, directories: Some(directories), by });
        }
        Ok(())
    }

    /// Starts a user's own command. It needs no approval, because the user typed it.
    pub(in crate::task) fn shell(&mut self, command: String, by: Source) -> Result<(), Refusal> {
        if self.state.is_over() {
            return Err(Refusal::Over);
        }
        if self.state.shell.is_some() {
            return Err(Refusal::ShellBusy);
        }
        let job = self.push(Event::ShellBegan { command, by });
        self.effect(Effect::Start { job, gate: Gate::Synced });
        Ok(())
    }

    /// Revokes rules. Rules that the task does not have are ignored.
    pub(in crate::task) fn revoke(&mut self, mut rules: Vec<Rule>, by: Source) {
        rules.retain(|rule| self.state.always.contains(rule));
        if !rules.is_empty() {
            self.push(Event::Revoked { rules, by });
        }
    }

    /// Ends the current turn; the task can be continued. The text that clients were shown is recorded as an answer, so that the model sees
    /// it too.
    pub(in crate::task) fn abort(&mut self, by: Option<Source>) {
        if by.is_some() {
            self.stop_shell("The user stopped the command.");
        }
        if !is_in_turn(self.state) {
            return;
        }
        let (reason, text) = match &by {
            Some(by) => ("The user stopped the turn.", format!("Stopped by {}.", by.client)),
            None => ("The client went away.", "Execution aborted by client.".to_owned()),
        };
        self.stop_everything(reason);
        let utterance = &self.state.utterance;
        if let (Phase::Working { step: Step::Think, .. }, Some(since)) = (&self.state.phase, utterance.since) {
            let answer = Answer { finish: Finish::Stopped, said_at: Some(since), ..Answer::new(&utterance.text, []) };
            self.push(Event::Answered { answer: Arc::new(answer) });
        }
        self.push(Event::TurnEnded { turn: self.state.turn.number, end: End::Interrupted(text), by });
    }

    fn stop_shell(&mut self, reason: &str) {
        if let Some(shell) = &self.state.shell {
            self.effect(Effect::Stop { job: shell.job });
            self.push(Event::ShellEnded { text: reason.to_owned() });
        }
    }

    /// Stops all jobs and ends every call that clients were shown.
    pub(in crate::task) fn stop_everything(&mut self, reason: &str) {
        match self.state.phase {
            Phase::Working { job, .. } => self.effect(Effect::Stop { job }),
            Phase::Idle | Phase::Backoff { .. } | Phase::Tools | Phase::Closed => {}
        }
        for call in &self.state.calls {
            match call.stage {
                Stage::Named | Stage::Ended => continue,
                Stage::Running { job } | Stage::Inquired { job } | Stage::Replanning { job } => {
                    self.effect(Effect::Stop { job })
                }
                Stage::Planned | Stage::Asked | Stage::Answered | Stage::Ready => {}
            }
            self.end_call(call.id().clone(), Ending::cancelled(reason));
        }
    }
}

/// The valid answers. Late answers and answers to unknown calls are ignored. An option that is not offered, or an answer to an earlier plan,
/// makes the whole message invalid, so that it has no partial effect.
fn valid_picks<'a>(state: &'a State, picks: &'a [Pick]) -> Result<Vec<Picked<'a>>, Refusal> {
    let mut valid: Vec<Picked> = Vec::new();
    for pick in picks {
        let open = state.asked().find(|call| call.id() == &pick.call && call.inquiry.is_none());
        let Some((call, plan)) = open.and_then(|call| Some((call, call.plan.as_ref()?))) else {
            continue;
        };
        if valid.iter().any(|earlier| earlier.pick.call == pick.call) {
            continue;
        }
        if pick.seen.is_some_and(|seen| seen != call.planned_at) {
            return Err(Refusal::PlannedAgain(pick.call.clone()));
        }
        let options = call.options();
        let is_offered = |choice: Choice| options.contains(&choice);
        let choice = match (Choice::from_word(&pick.option), call.keeping) {
            // Clients that do not show the options may always send "always".
            (Some(Choice::ProceedAlways | Choice::ProceedAlwaysAndSave), ApprovalScope::Once) => {
                Some(Choice::ProceedOnce)
            }
            (Some(Choice::ProceedAlways), _) if is_offered(Choice::ProceedAlwaysTool) => {
                Some(Choice::ProceedAlwaysTool)
            }
            (choice, ApprovalScope::Once | ApprovalScope::Session | ApprovalScope::Disk) => choice,
        };
        let Some(choice) = choice.filter(|choice| options.contains(choice)) else {
            let offered = options.iter().map(|choice| choice.word()).collect();
            return Err(Refusal::UnknownOption { call: pick.call.clone(), offered });
        };
        valid.push(Picked { call, plan, pick, choice });
    }
    Ok(valid)
}

pub(in crate::task) fn refused(plan: &Plan) -> Ending {
    let reason = if plan.question.asks_the_user() {
        "The user dismissed the questions without answering them."
    } else {
        "The user did not allow this call."
    };
    Ending::cancelled(reason)
}

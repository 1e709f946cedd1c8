//! Decisions about notes of workers: the model's text and failures, prepared calls, output, results. A note of a job for which the state
//! does not wait any more is dropped, except that files which a stopped call has written are recorded.

use super::*;
use crate::limits::SHELL_CHARS;
use crate::task::definitions::command_hook::HookPoint;
use crate::task::log::blob::FileChange;
use crate::task::machine::job::{Attachments, call_notes, model_notes, step_notes};
use std::{iter, slice};

impl Deciding<'_> {
    pub(in crate::task) fn note(&mut self, job: Seq, body: NoteBody, at: u64) {
        match (self.state.awaited(job), body) {
            (Some(_), NoteBody::HookRan(report)) => drop(self.push(Event::HookRan(Arc::new(report)))),
            // Hooks of this kind run independently of the jobs of the task.
            (None, NoteBody::HookRan(report)) if report.point == HookPoint::Notification && !self.state.is_over() => {
                self.push(Event::HookRan(Arc::new(report)));
            }
            (Some(awaited), body) => self.take_result(awaited, body, at),
            // The call had written files before it was stopped, which is recorded unless the task has ended.
            (None, NoteBody::Edited { changes, .. }) if !self.state.is_over() => self.files_changed(changes),
            // The state does not wait for this job any more, so its report is dropped.
            (None, _) => {}
        }
    }

    fn take_result(&mut self, awaited: Awaited<'_>, body: NoteBody, at: u64) {
        match (awaited, body) {
            (Awaited::Step(Step::Think), body) => self.model_note(body, at),
            (Awaited::Step(Step::Attach), NoteBody::Attached(found)) => self.attached(found),
            // The prompt is sent without the files that it refers to.
            (Awaited::Step(Step::Attach), NoteBody::Died(_)) => self.attached(Attachments::default()),
            (Awaited::Step(Step::Command), NoteBody::Tools(set)) => drop(self.push(Event::Tools(Arc::new(set)))),
            (Awaited::Step(Step::Command), NoteBody::Commanded(result)) => self.commanded(result),
            (Awaited::Step(Step::Command), NoteBody::Produced { artifact, append, last }) => {
                self.push(Event::Produced { artifact: Arc::new(artifact), append, last });
            }
            (Awaited::Step(Step::Command), NoteBody::Died(message)) => {
                self.commanded(Err(format!("The command ended unexpectedly: {message}")));
            }
            (Awaited::Step(Step::Compact), NoteBody::Compacted(result)) => {
                self.compacted(result.map_err(|e| e.message))
            }
            (Awaited::Step(Step::Compact), NoteBody::Died(reason)) => self.compacted(Err(reason)),
            (Awaited::Step(Step::Prepare), NoteBody::Prepared(plans)) => {
                self.prepared(&self.state.calls, plans, too_many(self.rules.limits.calls));
            }
            (Awaited::Step(Step::Prepare), NoteBody::Died(message)) => {
                self.prepared(&self.state.calls, Vec::new(), died(message));
            }
            (Awaited::Plan(call), NoteBody::Prepared(plans)) => {
                self.prepared(slice::from_ref(call), plans, died("it was not looked at".to_owned()));
            }
            (Awaited::Plan(call), NoteBody::Died(message)) => {
                self.prepared(slice::from_ref(call), Vec::new(), died(message));
            }
            (Awaited::Run(call), body) => self.call_note(call, body),
            (Awaited::Shell(_), NoteBody::Output(text)) if text.is_empty() => {}
            (Awaited::Shell(_), NoteBody::Output(text)) => drop(self.push(Event::ShellOutput { text })),
            (Awaited::Shell(_), NoteBody::Ended(RunEnd::Ended(ending))) => self.shell_ended(&ending),
            (Awaited::Shell(_), NoteBody::Died(message)) => self.shell_ended(&Ending::Error { error: died(message) }),
            // Jobs of these kinds do not send such notes.
            (
                Awaited::Step(Step::Attach | Step::Command | Step::Compact | Step::Prepare)
                | Awaited::Plan(_)
                | Awaited::Shell(_),
                model_notes!() | step_notes!() | call_notes!(),
            ) => {}
        }
    }

    fn call_note(&mut self, call: &CallState, body: NoteBody) {
        match body {
            NoteBody::Output(text) => self.printed(call, text),
            NoteBody::SkillActivated(skill) => drop(self.push(Event::SkillActivated(Arc::new(skill)))),
            NoteBody::AgentCalled(thread) => drop(self.push(Event::AgentCalled(Arc::new(thread)))),
            NoteBody::Inquired(inquired) => self.inquired(call, inquired),
            NoteBody::Withdrawn { nr } => self.withdrawn(call, Some(nr)),
            NoteBody::Ended(end) => {
                self.withdrawn(call, None);
                self.ran(call, end);
            }
            NoteBody::Edited { ending, changes } => {
                self.files_changed(changes);
                self.withdrawn(call, None);
                self.end_call(call.id().clone(), ending);
            }
            NoteBody::Died(message) => {
                self.withdrawn(call, None);
                self.end_call(call.id().clone(), Ending::Error { error: died(message) });
            }
            // Calls do not send such notes.
            NoteBody::HookRan(_) | model_notes!() | step_notes!() => {}
        }
    }

    fn model_note(&mut self, body: NoteBody, at: u64) {
        match body {
            NoteBody::Tools(set) => drop(self.push(Event::Tools(Arc::new(set)))),
            NoteBody::ServerSeen(seen) => drop(self.push(Event::ServerSeen(Arc::new(seen)))),
            NoteBody::Traced(trace) => drop(self.push(Event::Traced { trace })),
            NoteBody::Thought { subject, description } if subject.is_empty() && description.is_empty() => {}
            NoteBody::Thought { subject, description } => {
                self.push(Event::Thought { subject, description });
            }
            NoteBody::Text(text) if text.is_empty() => {}
            NoteBody::Cited(text) if text.trim().is_empty() => {}
            NoteBody::Text(text) => self.model_text(text),
            NoteBody::Cited(text) => drop(self.push(Event::Cited { text })),
            NoteBody::Produced { artifact, append, last } => {
                self.push(Event::Produced { artifact: Arc::new(artifact), append, last });
            }
            NoteBody::Answered(Ok(answer)) => self.answered(answer),
            NoteBody::Answered(Err(error)) => self.model_failed(error, at),
            NoteBody::Died(message) => {
                self.end_turn(End::Failed(format!("The request to the model ended unexpectedly: {message}")));
            }
            step_notes!() | call_notes!() => {}
        }
    }

    fn answered(&mut self, mut answer: Answer) {
        self.name_calls(&mut answer);
        answer.said_at = self.state.utterance.since;
        if self.repeats_calls(&answer) {
            return self.reject_repeated_calls(answer);
        }
        let has_calls = answer.has_calls();
        let job = self.push(Event::Answered { answer: Arc::new(answer) });
        if has_calls {
            self.start(job);
        }
    }

    /// Gives every call an id that is unique in the task, because the API's ids need not be unique, and an answer for an earlier call must
    /// not be taken for a later one.
    fn name_calls(&self, answer: &mut Answer) {
        let earlier = self.state.history.iter().filter_map(|item| match &**item {
            Item::Answered(answer) => Some(answer.calls()),
            Item::Said(_)
            | Item::Steered(_)
            | Item::Dropped(_)
            | Item::Results(_)
            | Item::Summary(_)
            | Item::Nudge(_)
            | Item::Media(_) => None,
        });
        let mut taken: HashSet<CallId> = earlier.flatten().map(|request| request.call.clone()).collect();
        let number = self.state.seq.0 + 1;
        for (n, request) in answer.calls_mut().enumerate() {
            let own = || format!("{}_{}_{number}_{n}", request.name, self.state.at);
            let id = request.api_id.clone().unwrap_or_else(own);
            let name = format!("{}__{id}", request.name);
            request.call = name.as_str().into();
            let mut copies = 1;
            while !taken.insert(request.call.clone()) {
                copies += 1;
                request.call = format!("{name}_{copies}").into();
            }
        }
    }

    fn model_failed(&mut self, error: ModelError, at: u64) {
        let limits = self.rules.limits;
        let Tries { failed, broken, since } = self.state.turn.tries;
        let since = if since == 0 { at } else { since };
        let (tries, delay_ms) = match error.kind {
            ModelErrorKind::NeedsKey => return self.end_turn(End::NeedsAuth(error.message)),
            ModelErrorKind::Fatal => return self.end_turn(End::Failed(error.message)),
            ModelErrorKind::Unusable => return self.fall_back(error.message),
            ModelErrorKind::TooLong => return self.too_long(error.message),
            ModelErrorKind::Busy { after_ms } => {
                let tries = Tries { failed: failed + 1, broken, since };
                let doubled = limits.backoff_ms.saturating_mul(1 << failed.min(20));
                let delay = doubled.min(limits.backoff_cap_ms).max(after_ms.unwrap_or(0));
                let is_late =
                    limits.model_retry_ms.is_some_and(|most| at.saturating_add(delay) > since.saturating_add(most));
                if tries.failed >= limits.model_tries || delay > limits.backoff_longest_ms || is_late {
                    let reason = match tries.failed {
                        1 => error.message,
                        count => format!("{} It was asked {count} times.", error.message),
                    };
                    return self.fall_back(reason);
                }
                (tries, self.with_jitter(delay))
            }
            ModelErrorKind::BadStream => {
                let tries = Tries { failed, broken: broken + 1, since };
                if tries.broken >= limits.stream_tries {
                    return self.end_turn(End::Failed(error.message));
                }
                (tries, limits.stream_retry_ms.saturating_mul(1 << broken.min(20)))
            }
        };
        let reason = error.message;
        if self.state.utterance.since.is_some() {
            self.push(Event::Retracted { reason: reason.clone() });
        }
        let job = self.push(Event::BackedOff { tries, delay_ms, reason });
        self.effect(Effect::Arm { job, delay_ms });
    }

    /// The delay, lengthened by up to a fifth depending on the task and its position, so that tasks that fail at the same time do not try
    /// again at the same time.
    fn with_jitter(&self, delay_ms: u64) -> u64 {
        let mark = crate::base::crc::crc32(self.state.created.task.as_str().as_bytes());
        let share = (u64::from(mark) + self.state.seq.0 * 7919) % 200;
        delay_ms + delay_ms * share / 1000
    }

    /// Calls were prepared. Calls without a result end with the error `missing`.
    fn prepared(&mut self, calls: &[CallState], results: Vec<Result<Plan, CallError>>, missing: CallError) {
        let results = results.into_iter().chain(iter::repeat(Err(missing)));
        let mut planned = Vec::new();
        for (call, result) in calls.iter().zip(results) {
            let id = call.id().clone();
            match result {
                Ok(mut plan) => {
                    self.warn_of_change(call, &mut plan);
                    let plan = Arc::new(plan);
                    self.push(Event::CallPlanned { call: id, plan: plan.clone() });
                    planned.push((call, plan));
                }
                Err(error) => self.end_call(id, Ending::Error { error }),
            }
        }
        for (call, plan) in planned {
            self.judge(call, &plan);
        }
    }

    /// Adds a warning to the plan if a rule allowed this tool of an MCP server, and the tool or the server's configuration has changed since.
    fn warn_of_change(&self, call: &CallState, plan: &mut Plan) {
        let ToolFacts { name, origin, .. } = self.tool(call).planned(plan);
        let Question::Mcp { server, warnings, .. } = &mut plan.question else { return };
        let mut rules = self.state.always.iter().chain(self.rules.policy.saved());
        if call.stale > 0 || rules.any(|rule| rule.allowed_before(name, &origin)) {
            warnings.push(format!(
                "It was allowed before, but {server} has changed the tool or was configured anew since then. Check what it says now."
            ));
        }
    }

    /// Decides whether a planned call runs, needs approval or is denied.
    fn judge(&mut self, call: &CallState, plan: &Plan) {
        let id = call.id().clone();
        let ruling = self.ruling(call, plan, &self.state.always);
        match ruling.verdict {
            Verdict::Allow => {
                self.push(Event::CallReady { call: id, confinement: ruling.confinement });
            }
            Verdict::Ask => {
                let (grant, trusted) = (self.rules.grant, self.state.created.trusted);
                let is_mcp = matches!(plan.question, Question::Mcp { .. });
                let keeping = match grant.saving && trusted {
                    _ if plan.question.is_unread() => ApprovalScope::Once,
                    _ if is_mcp && (grant.always_disabled || !trusted) => ApprovalScope::Once,
                    _ if self.tool(call).origin.is_of_client() => ApprovalScope::Once,
                    true => ApprovalScope::Disk,
                    false => ApprovalScope::Session,
                };
                self.push(Event::CallAsked { call: id, keeping });
            }
            Verdict::Deny => {
                let (tool, reason) = (&call.request.name, ruling.reason);
                let message = format!("This call of {tool} is not allowed here: {reason}.");
                let error = ErrorKind::PolicyViolation.error(message);
                self.end_call(id, Ending::Error { error });
            }
        }
    }

    /// The decision of the policy and of the rules of this task about a call.
    pub(super) fn ruling(&self, call: &CallState, plan: &Plan, always: &[Rule]) -> Ruling {
        let state = self.state;
        let tool = self.tool(call).planned(plan);
        if !tool.is_among(state.created.tools.as_deref()) {
            let reason = "whoever began this task wants other tools used only";
            return Ruling::new(Verdict::Deny, reason);
        }
        if matches!(plan.question, Question::Mcp { .. }) && tool.origin.mcp().is_none() {
            return Ruling::new(Verdict::Deny, "the model was not told of this tool");
        }
        // If the file has changed since the approval, earlier "always" answers do not apply: the user has to see the new diff.
        let session = match call.stale {
            0 => always,
            _ => &[],
        };
        let mut ruling = self.rules.policy.judge(&CallContext {
            tool: tool.name,
            kind: tool.kind,
            origin: &tool.origin,
            by_default: tool.by_default,
            args: &call.request.args,
            plan,
            mode: state.mode,
            session,
            denied: state.tools.as_ref().map_or(&[], |tools| &tools.denied),
            trusted: state.created.trusted,
            interactive: self.rules.policy.is_interactive(),
            auto_execute: state.created.auto_execute && self.rules.grant.auto_execute,
        });
        // A rule may deny a question of the agent to the user, but cannot answer it. It also cannot allow a call for which a hook
        // requires approval.
        if (plan.question.asks_the_user() || call.must_ask) && ruling.verdict == Verdict::Allow {
            ruling = match self.rules.policy.is_interactive() {
                true => Ruling { verdict: Verdict::Ask, ..ruling },
                false => Ruling::new(Verdict::Deny, "nobody can be asked"),
            };
        }
        ruling
    }

    fn printed(&mut self, call: &CallState, text: String) {
        if !text.is_empty() {
            let call = call.id().clone();
            self.push(Event::CallOutput { call, text });
        }
    }

    fn files_changed(&mut self, changes: Vec<FileChange>) {
        for change in changes {
            self.push(Event::FileChanged(Arc::new(change)));
        }
    }

    fn ran(&mut self, call: &CallState, end: RunEnd) {
        let id = call.id().clone();
        match end {
            RunEnd::Ended(ending) => self.end_call(id, ending),
            RunEnd::Stale => {
                let job = self.push(Event::CallStale { call: id });
                self.start(job);
            }
        }
    }

    /// Records the end of a user's own command, with the text for the model and for people.
    fn shell_ended(&mut self, ending: &Ending) {
        let (reason, output) = match ending {
            Ending::Success { output, .. } => ("", output.as_str()),
            Ending::Cancelled { reason, output } => (reason.as_str(), output.as_str()),
            Ending::Error { error } => (error.message.as_str(), ""),
        };
        let mut text: String = output.chars().take(SHELL_CHARS).collect();
        if text.len() < output.len() {
            let end = end_of(&output[text.len()..]);
            text.push_str("\n[The rest was left out.]");
            text.push_str(end);
        }
        let text = [reason, &text].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        self.push(Event::ShellEnded { text });
    }

    pub(in crate::task) fn due(&mut self, job: Seq) {
        if matches!(self.state.phase, Phase::Backoff { job: at, .. } if at == job) {
            let job = self.push(Event::Retried);
            self.start(job);
        }
    }
}

/// The last lines of a result, which say how the command ended and close the element around its output.
fn end_of(output: &str) -> &str {
    let last = &output[output.ceil_char_boundary(output.len().saturating_sub(END_BYTES))..];
    let marks = ["\nExit Code: ", "\nSignal: ", "\n</untrusted_context>"];
    let at = marks.iter().find_map(|mark| last.rfind(mark));
    at.map_or("", |at| &last[at..])
}

/// Bytes at the end of a result that are searched for these lines.
const END_BYTES: usize = 512;

fn died(message: String) -> CallError {
    ErrorKind::UnhandledException.error(format!("The tool ended unexpectedly: {message}"))
}

fn too_many(limit: usize) -> CallError {
    let message = format!("Too many calls in one answer; at most {limit} are run.");
    ErrorKind::InvalidToolParams.error(message)
}

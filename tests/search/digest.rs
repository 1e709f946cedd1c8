//! The digest by which the search recognizes a state that it has visited before.

use crate::system::{SystemState, Worker};
use gemini_a2a::base::id::Seq;
use gemini_a2a::task::machine::state::{Item, Phase, Stage};
use gemini_a2a::task::push::Due;
use gemini_a2a::task::spec::{Choice, Ending};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

impl SystemState {
    /// Equal for states with the same future. Leaves out times, absolute positions, and the identity of the two users.
    pub fn digest(&self) -> u64 {
        let jobs = self.jobs();
        let rank = |job: Seq| jobs.binary_search(&job).ok();
        let mut out = DefaultHasher::new();
        self.hash_state(&mut out, &rank);
        for Worker { job, work, late } in &self.workers {
            (rank(*job), work, late).hash(&mut out);
        }
        for timer in &self.timers {
            rank(*timer).hash(&mut out);
        }
        let mut observations = self.observations.clone();
        let of = |who: usize| observations.calls.each_ref().map(|call| call.picked[who]);
        if of(0) > of(1) {
            for call in &mut observations.calls {
                call.picked.swap(0, 1);
            }
        }
        (observations, self.budget).hash(&mut out);
        out.finish()
    }

    /// All jobs that the state names, sorted. The digest uses the rank of a job instead of its id.
    fn jobs(&self) -> Vec<Seq> {
        let mut jobs: Vec<Seq> = self.timers.clone();
        jobs.extend(self.workers.iter().map(|worker| worker.job));
        jobs.extend(phase_job(&self.state.phase));
        let of_calls = self.state.calls.iter().map(|call| stage_job(call.stage));
        jobs.extend(of_calls.flatten());
        jobs.sort();
        jobs.dedup();
        jobs
    }

    fn hash_state(&self, out: &mut DefaultHasher, rank: &dyn Fn(Seq) -> Option<usize>) {
        let state = &self.state;
        discriminant(&state.phase).hash(out);
        phase_job(&state.phase).map(rank).hash(out);
        (state.status.state, state.announced).hash(out);
        (&state.status.text, &state.turn.error).hash(out);
        (state.turn.number, state.last_turn, state.turn.round, state.paused, state.suspended).hash(out);
        (state.turn.tries.failed, state.turn.tries.broken).hash(out);
        state.utterance.since.is_some().hash(out);
        for queued in &state.queue {
            (queued.turn, queued.steer).hash(out);
        }
        for due in state.hooks.iter().flat_map(|hook| &hook.due) {
            match due {
                Due::Status { status, outcome } => (status.state, outcome).hash(out),
                Due::Artifact { .. } | Due::Answer { .. } => discriminant(due).hash(out),
            }
        }
        state.hooks.len().hash(out);
        for rule in &state.always {
            format!("{rule:?}").hash(out);
        }
        for call in &state.calls {
            discriminant(&call.stage).hash(out);
            stage_job(call.stage).map(rank).hash(out);
            (call.choice.map(Choice::word), call.stale).hash(out);
            call.ending.as_deref().map(word).hash(out);
        }
        for item in &state.history {
            discriminant(&**item).hash(out);
            match &**item {
                Item::Said(message) | Item::Steered(message) | Item::Dropped(message) => message.id.hash(out),
                Item::Summary(text) => text.hash(out),
                Item::Nudge(text) => text.as_str().hash(out),
                Item::Media(media) => media.len().hash(out),
                Item::Answered(answer) => answer.calls().count().hash(out),
                Item::Results(results) => {
                    let endings = results.iter().map(|result| word(&result.ending));
                    endings.for_each(|ending| ending.hash(out));
                }
            }
        }
    }
}

fn phase_job(phase: &Phase) -> Option<Seq> {
    match phase {
        Phase::Working { job, .. } | Phase::Backoff { job, .. } => Some(*job),
        Phase::Idle | Phase::Tools | Phase::Closed => None,
    }
}

fn stage_job(stage: Stage) -> Option<Seq> {
    match stage {
        Stage::Running { job } | Stage::Inquired { job } | Stage::Replanning { job } => Some(job),
        Stage::Named | Stage::Planned | Stage::Asked | Stage::Answered | Stage::Ready | Stage::Ended => None,
    }
}

/// What distinguishes one ending from another for later events.
fn word(ending: &Ending) -> &str {
    match ending {
        Ending::Success { .. } => "success",
        Ending::Error { error } => &error.message,
        Ending::Cancelled { reason, .. } => reason,
    }
}

//! The store in trouble: the disk is full, most likely. What cannot be written waits or is refused; here is who is told, and how
//! it is found out that the trouble is over.
//!
//! Whoever runs the server reads the log, and programs that watch it ask for its health. Health is for anybody, so it says
//! what is wrong and what to do, and names no file. It is bad from the first write that fails until a trial write succeeds and
//! no journal is waiting any more; the trials go on by themselves, because it may be that nobody dares to ask for anything.

use crate::base::clock::Now;
use crate::core::store::{Store, StoreError};
use crate::core::timers::Timer;
use crate::core::{Core, Out};

#[derive(Default)]
pub(super) struct Trouble {
    /// What is wrong, for anybody to read, as long as it is.
    problem: Option<String>,
    /// When the log was last told, in monotonic milliseconds.
    told: Option<u64>,
    trial: Trial,
}

/// A trial write.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Trial {
    #[default]
    None,
    /// There is a timer for it.
    Armed,
    /// Its time has come.
    Due,
}

impl Core {
    /// What is wrong with the store, and what to do about it.
    pub(super) fn problem(&self) -> Option<&str> {
        self.trouble.problem.as_deref()
    }

    /// Something could not be written. Clients that wait are told nothing before their events are on disk, so others have to
    /// hear of it.
    pub(super) fn tell_trouble(&mut self, error: &StoreError, now: Now) {
        let hint = error.hint.as_deref();
        let hint = hint.unwrap_or("the server's log says why");
        let problem =
            format!("Journals cannot be written: {hint}. Until then nothing new begins and what was begun waits.");
        self.trouble.problem = Some(problem);
        self.arm_trial(now.mono_ms + self.limits.store_retry_ms);
        let pause = self.limits.store_tell_ms;
        let told = self.trouble.told;
        if told.is_some_and(|told| now.mono_ms < told + pause) {
            return;
        }
        self.trouble.told = Some(now.mono_ms);
        let text = format!("{error}; until then nothing new begins and what was begun waits");
        self.out.push(Out::Trouble { text });
    }

    /// Sees to it that somebody tries whether the store can be written.
    pub(super) fn arm_trial(&mut self, at_ms: u64) {
        if self.trouble.trial == Trial::None {
            self.trouble.trial = Trial::Armed;
            self.timers.arm(at_ms, Timer::Trial);
        }
    }

    /// The time for that has come.
    pub(super) fn try_store(&mut self) {
        self.trouble.trial = Trial::Due;
    }

    /// Finds out how the store is, if it is time to.
    pub(super) fn undergo_trial(&mut self, store: &mut dyn Store, now: Now) {
        if self.trouble.trial != Trial::Due {
            return;
        }
        self.trouble.trial = Trial::None;
        match store.probe() {
            Err(error) => self.tell_trouble(&error, now),
            Ok(()) if self.tasks.values().any(|cell| cell.broken.is_some()) => {
                self.arm_trial(now.mono_ms + self.limits.store_retry_ms);
            }
            Ok(()) => self.trouble.problem = None,
        }
    }

    /// Panics when nobody will find out that the trouble is over.
    pub(super) fn check_trouble(&self) {
        let Trouble { problem, trial, .. } = &self.trouble;
        assert!(
            problem.is_none() || *trial == Trial::Armed && self.timers.has(&Timer::Trial),
            "the server would be unwell for ever"
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::a2a::Envelope;
    use crate::core::rig::Rig;
    use crate::core::store::Failure;
    use crate::task::call::Call;
    use crate::task::decide::Input;
    use serde_json::{Value, json};

    /// The status, and what is wrong.
    fn health(rig: &mut Rig) -> [Value; 2] {
        let health = rig.ask(Envelope::Gemini, Call::Health);
        ["status", "problem"].map(|member| health[member].clone())
    }

    fn well() -> [Value; 2] {
        [json!("healthy"), Value::Null]
    }

    fn unwell() -> [Value; 2] {
        let problem = "Journals cannot be written: the server's log says why. Until then nothing new begins and what was \
             begun waits.";
        [json!("degraded"), json!(problem)]
    }

    #[test]
    fn a_task_that_could_not_be_begun_makes_it_unwell_until_a_trial_succeeds() {
        let mut rig = Rig::new();
        assert_eq!(health(&mut rig), well());
        // One for the task, two for trials.
        rig.store.fail(Failure::Refused, 3);
        rig.ask(Envelope::Gemini, Call::Session);
        for _ in 0..3 {
            assert_eq!(health(&mut rig), unwell());
            rig.later(rig.limits.store_retry_ms);
        }
        assert_eq!(health(&mut rig), well(), "nobody else has written");
    }

    #[test]
    fn a_journal_that_waits_keeps_it_unwell_whatever_a_trial_says() {
        let mut rig = Rig::new();
        let task = rig.begin(Envelope::Rpc03, None);
        rig.store.fail(Failure::Torn, 2);
        let _ = rig.core.drive(&task, Input::Cancel, rig.now);
        for _ in 0..2 {
            rig.turns();
            assert_eq!(health(&mut rig), unwell());
            rig.later(rig.limits.store_retry_ms);
        }
        assert_eq!(health(&mut rig), well());
    }

    #[test]
    fn a_disk_that_was_full_before_is_found_out_at_the_start() {
        let mut rig = Rig::new();
        rig.store.fail(Failure::Refused, 1);
        rig.core.remember(&mut rig.store);
        rig.turns();
        assert_eq!(health(&mut rig), unwell());
        rig.later(rig.limits.store_retry_ms);
        assert_eq!(health(&mut rig), well());
    }
}

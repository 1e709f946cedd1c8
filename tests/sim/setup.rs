//! The limits and the core of a run. The limits are small enough to be reached.

use crate::random::Random;
use crate::simulation::CLIENTS;
use crate::workers::tools;
use gemini_a2a::a2a::Switches;
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::Entropy;
use gemini_a2a::core::audit::AuditSetup;
use gemini_a2a::core::{Core, Setup};
use gemini_a2a::limits::{Limits, Times};
use gemini_a2a::task::log::event::Profile;

/// Small limits, so that runs reach them; different in every run.
pub fn limits(chance: &mut Random) -> Limits {
    Limits {
        head_bytes: 700,
        body_bytes: 3_000,
        inline_body_bytes: [0, 300, 3_000][chance.below(3)],
        inline_log_bytes: [0, 1_500, 100_000][chance.below(3)],
        connections: chance.within(4, CLIENTS as u64 + 1) as usize,
        head_ms: 800,
        body_ms: 3_000,
        idle_ms: 4_000,
        stall_ms: 3_000,
        ping_ms: 900,
        tx_bytes: [300, 2_000, 9_000][chance.below(3)],
        turn_bytes: 600,
        turn_notes: [2, 9, 100][chance.below(3)],
        tasks: chance.within(3, 10) as usize,
        task_subs: chance.within(2, 6) as usize,
        subs: chance.within(4, 9) as usize,
        queued_prompts: 3,
        hot_bytes: [500, 3_000, 20_000][chance.below(3)],
        hot_total_bytes: [1_500, 30_000][chance.below(2)],
        page_bytes: [200, 2_000, 20_000][chance.below(3)],
        calls: 3,
        model_tries: 3,
        stream_tries: 3,
        backoff_ms: 50,
        backoff_cap_ms: 150,
        backoff_longest_ms: 300,
        stream_retry_ms: 30,
        store_retry_ms: 100,
        webhooks: 2,
        webhooks_per_minute: 30,
        webhook_retry_ms: 40,
        webhook_retries: 2,
        webhook_longest_retry_ms: 300,
        webhook_failures: 3,
        webhook_history: 2,
        shutdown_ms: 2_000,
        times: Times {
            answer_ms: [None, Some(300), Some(2_000)][chance.below(3)],
            turn_ms: [None, None, Some(900)][chance.below(3)],
            idle_ms: [None, Some(1_500)][chance.below(2)],
            // A deleted task cannot be compared with what clients have received; `tests/switches.rs` tests retention.
            retention_ms: None,
        },
        expiries: 2,
        expiry_pause_ms: 50,
        expiry_retry_ms: 400,
        ..Limits::default()
    }
}

pub fn core(limits: &Limits, now: Now, id_base: u64, audit: Option<AuditSetup>, is_shared: bool) -> Core {
    // Tasks of 0.3 go on after a turn.
    let switches = Switches { default_profile_03: Profile::Coder, ..Switches::default() };
    let mut setup = Setup {
        tools: tools(),
        audit,
        entropy: Entropy::counting_after(id_base.into()),
        ..crate::core_harness::setup(limits.clone(), switches, now)
    };
    if is_shared {
        // Every start is another instance.
        crate::core_harness::share(&mut setup, &format!("i{id_base}"));
    }
    Core::new(setup)
}

//! Scenarios about requests to the model that fail. The turn ends and tells the reason; the task can go on.

use crate::scenario::Scenario;
use crate::support::message::text_of;
use crate::{CREATED, TEXT};

const TURN_NOT_TASK: &str = "an error of the model ends the turn but not the task, and is reported once";

#[test]
fn model_err400() {
    let scenario = Scenario::new();
    let turn = scenario.send("ERR400");
    let error = turn.last()["metadata"]["error"].as_str().unwrap_or("");
    assert!(error.contains("error 400"), "{}", turn.last());
    assert!(text_of(turn.last()).contains("error 400"));
    assert_eq!(scenario.fake.turns().len(), 1, "an invalid request is not retried");
    scenario.state(turn.task());
    assert_eq!(scenario.send_to(turn.task(), "TEXT Still here.").text(), "Still here.");
    scenario.expect_but(
        TURN_NOT_TASK,
        &[
            "> ERR400",
            CREATED,
            "
            - status failed state-change final
            + status input-required state-change final
            > tasks/get
            - 200 task failed
            + 200 task input-required
            + > TEXT Still here.
            + status working state-change
            + status working text-content
            + status input-required state-change final",
        ],
    );
}

/// Errors that are retried. The cases run at the same time because each waits between its attempts.
#[test]
fn model_errors_that_are_retried() {
    let failed = "
        - status failed state-change final
        + status input-required state-change final";
    let again = "
        status working text-content
        + status working state-change
        + status working text-content
        + status working state-change
        + status working text-content
        + status working state-change
        + status working text-content";
    let cut = &format!("{again}\n- status working state-change{failed}");
    let finished = &format!("{again}\nstatus input-required state-change final");
    let cases: [(&str, Option<&str>, &[&str], usize); 7] = [
        // Two attempts with the model, and two with its fallback.
        ("ERR429", Some(TURN_NOT_TASK), &[CREATED, failed], 4),
        ("ERR500", Some(TURN_NOT_TASK), &[CREATED, failed], 4),
        ("ERR503 1", None, &[CREATED, TEXT], 2),
        ("CUT 2", Some(TURN_NOT_TASK), &[CREATED, cut], 4),
        ("TEXT Before. ++ GARBAGE", Some(TURN_NOT_TASK), &[CREATED, cut], 4),
        ("EMPTY", None, &[CREATED, "status input-required state-change final"], 4),
        ("FINISH MALFORMED_FUNCTION_CALL", Some("retries are shown"), &[CREATED, finished], 4),
    ];
    std::thread::scope(|scope| {
        for (script, because, expected, attempts) in cases {
            scope.spawn(move || {
                let scenario = Scenario::with(|setup| setup.arg("--max-attempts").arg("2"));
                let turn = scenario.send(script);
                assert_eq!(scenario.fake.turns().len(), attempts, "{script}");
                let has_error = turn.last()["metadata"]["error"].is_string();
                assert_eq!(has_error, script != "ERR503 1", "{script}: {}", turn.last());
                let title = format!("> {script}");
                let expected = [&[title.as_str()], expected].concat();
                match because {
                    Some(because) => scenario.expect_but(because, &expected),
                    None => scenario.expect(&expected),
                }
            });
        }
    });
}

#[test]
fn model_safety_and_max_tokens() {
    for reason in ["SAFETY", "MAX_TOKENS"] {
        let scenario = Scenario::new();
        let turn = scenario.send(&format!("FINISH {reason}"));
        let text = turn.text();
        assert!(text.starts_with("Partial."), "{text}");
        assert!(text.len() > "Partial.".len(), "the reason is missing: {text}");
        scenario.expect(&[&format!("> FINISH {reason}"), CREATED, TEXT]);
    }
}

//! Notes of workers that are late, or that do not fit the job they are about, are dropped.

use crate::logs::*;
use crate::task::*;
use gemini_a2a::task::log::event::Event;
use gemini_a2a::task::machine::job::{ModelErrorKind, NoteBody};
use gemini_a2a::task::message::Artifact;

/// (29) Every kind of note, in every phase, for a job that is not waited for.
#[test]
fn a_result_of_an_unknown_job_is_dropped() {
    for (phase, start) in every_phase() {
        let case = given(start);
        let awaited = match phase {
            "thinking" => Some(3),
            "commanding" => Some(4),
            "preparing" => Some(4),
            "editing" => Some(12),
            "replanning" => Some(13),
            _ => None,
        };
        for job in (1..=20).filter(|job| Some(*job) != awaited) {
            for body in every_note() {
                let decision = case.decide(note(job, body.clone()));
                assert!(decision.unwrap().is_empty(), "{phase} {job} {body:?}");
            }
        }
    }
}

#[test]
fn a_result_that_does_not_fit_its_job_is_dropped() {
    // For each job, which of the notes below have an effect.
    let cases: [(Vec<Event>, u64, [bool; 11]); 5] = [
        (commanding(), 4, [false, false, false, true, false, false, false, false, false, true, true]),
        (thinking(), 3, [true, true, true, true, true, true, false, false, false, false, true]),
        (preparing(), 4, [false, false, false, false, false, false, true, false, false, false, true]),
        (editing(), 12, [false, false, false, false, false, false, false, true, true, false, true]),
        (replanning(), 13, [false, false, false, false, false, false, true, false, false, false, true]),
    ];
    for (start, job, means_something) in cases {
        let case = given(start);
        for (body, means) in every_note().into_iter().zip(means_something) {
            let decision = case.decide(note(job, body.clone())).unwrap();
            assert_eq!(!decision.is_empty(), means, "{job} {body:?}");
        }
    }
}

fn every_note() -> [NoteBody; 11] {
    [
        NoteBody::Thought { subject: "s".into(), description: "d".into() },
        NoteBody::Text("t".into()),
        NoteBody::Cited("c".into()),
        NoteBody::Produced {
            artifact: Artifact { id: "a".into(), name: None, description: None, parts: vec![] },
            append: false,
            last: true,
        },
        model_answers(&[]),
        model_fails(ModelErrorKind::Fatal),
        prepared(&[edit(), shell()]),
        NoteBody::Output("o".into()),
        run_ends(success()),
        command_says("done"),
        NoteBody::Died("d".into()),
    ]
}

//! The duties of an A2A server, each a story told once and played over JSON-RPC and REST in both versions, with the real binary
//! and a scripted agent (`kit.script.json`) that does by the message's id what the protocol project's compatibility kits ask for.
//! Beside what the specification demands, the stories hold what the kits are known to check.

mod support;

/// Plays stories over every binding: `duty::rpc03`, `duty::rest03`, `duty::rpc10`, `duty::rest10`. Behind a story's name may stand the
/// flags of its server.
macro_rules! duties {
    ($($story:ident $([$flags:expr])?),+ $(,)?) => {$(
        mod $story {
            use crate::binding::Binding;

            #[test]
            fn rpc03() {
                super::$story(&mut super::Desk::with(Binding::Rpc03, &[$($flags)?]));
            }

            #[test]
            fn rest03() {
                super::$story(&mut super::Desk::with(Binding::Rest03, &[$($flags)?]));
            }

            #[test]
            fn rpc10() {
                super::$story(&mut super::Desk::with(Binding::Rpc10, &[$($flags)?]));
            }

            #[test]
            fn rest10() {
                super::$story(&mut super::Desk::with(Binding::Rest10, &[$($flags)?]));
            }
        }
    )+};
}

/// The same for what only 1.0 knows.
macro_rules! of_1_0 {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            use crate::binding::Binding;

            #[test]
            fn rpc10() {
                super::$story(&mut super::Desk::with(Binding::Rpc10, &[]));
            }

            #[test]
            fn rest10() {
                super::$story(&mut super::Desk::with(Binding::Rest10, &[]));
            }
        }
    )+};
}

#[path = "kit/binding.rs"]
mod binding;
#[path = "kit/desk.rs"]
mod desk;
#[path = "kit/hook.rs"]
mod hook;
#[path = "kit/problem.rs"]
mod problem;
#[path = "kit/shape.rs"]
mod shape;

#[path = "kit/card.rs"]
mod card;
#[path = "kit/envelope.rs"]
mod envelope;
#[path = "kit/liberal.rs"]
mod liberal;
#[path = "kit/plain.rs"]
mod plain;
#[path = "kit/push.rs"]
mod push;
#[path = "kit/send.rs"]
mod send;
#[path = "kit/stream.rs"]
mod stream;
#[path = "kit/switches.rs"]
mod switches;
#[path = "kit/tasks.rs"]
mod tasks;
#[path = "kit/versions.rs"]
mod versions;

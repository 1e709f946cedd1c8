//! The duties of an A2A server, each a story told once and played over JSON-RPC and REST in both versions, with the real binary
//! and a scripted agent (`kit.script.json`) that does by the message's id what the protocol project's compatibility kits ask for.
//! Beside what the specification demands, the stories hold what the kits are known to check.

mod support;

/// A story for each binding: `duty::rpc03`, `duty::rest03`, `duty::rpc10`, `duty::rest10`. Flags of the server may follow the desk.
macro_rules! duties {
    ($($(#[$note:meta])* fn $name:ident($desk:ident $(, $flags:expr)?) $story:block)+) => {$(
        $(#[$note])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn story($desk: &mut Desk) $story

            #[test]
            fn rpc03() {
                story(&mut Desk::with(Binding::Rpc03, &[$($flags)?]));
            }

            #[test]
            fn rest03() {
                story(&mut Desk::with(Binding::Rest03, &[$($flags)?]));
            }

            #[test]
            fn rpc10() {
                story(&mut Desk::with(Binding::Rpc10, &[$($flags)?]));
            }

            #[test]
            fn rest10() {
                story(&mut Desk::with(Binding::Rest10, &[$($flags)?]));
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

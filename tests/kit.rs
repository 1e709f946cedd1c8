//! The requirements of an A2A server. Each test is written once and runs over JSON-RPC and REST in both versions, with the real binary and
//! a scripted agent (`kit.script.json`). As the compatibility kits of the protocol project expect it, the agent chooses its behaviour by
//! the id of the message. The tests check what the specification demands, and also what the kits are known to check.

mod support;

/// Runs each function as four tests, one for each binding: `NAME::rpc03`, `NAME::rest03`, `NAME::rpc10`, `NAME::rest10`. The flags of the
/// server may follow the name of the function.
macro_rules! every_binding {
    ($($story:ident $([$flags:expr])?),+ $(,)?) => {$(
        mod $story {
            use crate::binding::Binding;

            #[test]
            fn rpc03() {
                super::$story(&mut super::Harness::with(Binding::Rpc03, &[$($flags)?]));
            }

            #[test]
            fn rest03() {
                super::$story(&mut super::Harness::with(Binding::Rest03, &[$($flags)?]));
            }

            #[test]
            fn rpc10() {
                super::$story(&mut super::Harness::with(Binding::Rpc10, &[$($flags)?]));
            }

            #[test]
            fn rest10() {
                super::$story(&mut super::Harness::with(Binding::Rest10, &[$($flags)?]));
            }
        }
    )+};
}

/// The same for features that only 1.0 has.
macro_rules! bindings_of_1_0 {
    ($($story:ident),+ $(,)?) => {$(
        mod $story {
            use crate::binding::Binding;

            #[test]
            fn rpc10() {
                super::$story(&mut super::Harness::with(Binding::Rpc10, &[]));
            }

            #[test]
            fn rest10() {
                super::$story(&mut super::Harness::with(Binding::Rest10, &[]));
            }
        }
    )+};
}

#[path = "kit/binding.rs"]
mod binding;
#[path = "kit/harness.rs"]
mod harness;
#[path = "kit/problem.rs"]
mod problem;
#[path = "kit/receiver.rs"]
mod receiver;
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

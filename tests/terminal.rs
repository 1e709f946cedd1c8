//! The terminal: what the painter sends, interpreted by a small terminal of our own, and the screens that people see.

#[path = "terminal/behaviour.rs"]
mod behaviour;
#[path = "terminal/paint.rs"]
mod paint;
#[path = "terminal/screens.rs"]
mod screens;
#[path = "terminal/session.rs"]
mod session;
#[path = "support/vt.rs"]
mod vt;

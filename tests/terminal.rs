//! The terminal: what the painter sends, interpreted by a small terminal of our own, and the screens that people see.

#[path = "terminal/paint.rs"]
mod paint;
#[path = "support/vt.rs"]
mod vt;

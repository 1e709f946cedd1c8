//! Written next.

pub mod children;

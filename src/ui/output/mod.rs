//! Output: the transcript, the screen, and painting them.

pub mod block;
pub mod linear;
pub mod paint;
pub mod print_queue;
pub mod screen;
pub mod status;
pub mod transcript;

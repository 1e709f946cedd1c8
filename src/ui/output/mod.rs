//! Output: the transcript, the screen, and painting them.

#[cfg(feature = "tui")]
pub mod block;
#[cfg(feature = "tui")]
pub mod linear;
#[cfg(feature = "tui")]
pub mod paint;
#[cfg(feature = "tui")]
pub mod print_queue;
#[cfg(feature = "tui")]
pub mod screen;
#[cfg(feature = "tui")]
pub mod status;
#[cfg(feature = "tui")]
pub mod transcript;

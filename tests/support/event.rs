//! What tests of a task's log ask about an event.

use gemini_a2a::task::log::event::Event;

/// Whether it is about the webhooks of a task and not about the task itself: only such events may follow the task's end.
pub fn is_of_hooks(event: &Event) -> bool {
    matches!(event, Event::HookSet { .. } | Event::HookDropped { .. } | Event::HookMoved { .. })
}

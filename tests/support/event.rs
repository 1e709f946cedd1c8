//! Properties of events for tests of a task's log.

use gemini_a2a::task::log::event::Event;

/// Whether the event is about a webhook of the task. Only such events may follow the end of the task.
pub fn is_of_hooks(event: &Event) -> bool {
    matches!(event, Event::HookSet { .. } | Event::HookDropped { .. } | Event::HookMoved { .. })
}

//! Lists of tasks. The tasks of a page are chosen by the summaries of all tasks; only these are loaded. A list shows only what is on disk, so
//! it is made when everything of this turn of the loop has been appended. A task with events that are not on disk is left out.

use crate::a2a::{self, Answers, Page, SnapshotOptions};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::Core;
use crate::core::compute::Extent;
use crate::core::disk::Parked;
use crate::core::requests::Caller;
use crate::task::call::{Call, List, ListCursor};
use crate::task::log::brief::Brief;
use crate::task::machine::state::State;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// About how long the metadata of one task is.
const METADATA_BYTES: usize = 1024;

impl Core {
    /// Answers a request for a list, or parks it until the tasks on its page are in memory.
    pub(in crate::core) fn list(&mut self, request: Parked, now: Now) {
        let conn = request.caller.conn;
        self.connections.end_call(conn);
        match &request.call {
            Call::AllMetadata => {
                let mut states = self.all_states(&request.caller);
                let tools = self.tools.shown.clone();
                let bytes = states.len() * METADATA_BYTES;
                let encode = move |_: &a2a::Form| a2a::all_metadata(by_status(&mut states), &tools);
                self.answer_encoded(conn, request.caller.form, (bytes, Extent::Whole), encode, now);
            }
            Call::List(list) if request.caller.form.dialect.answers == Answers::Gemini => {
                // This dialect has no pages. The answer says how many tasks there are, and other dialects show the rest.
                let newest = self.newest(list, &request, self.settings.limits.list_briefs);
                let response = a2a::briefs(&request.caller.form, newest.tasks, newest.total);
                self.answer(conn, &response, now);
                self.read_on(conn, now);
            }
            Call::List(list) => {
                let size = size(list, self.settings.limits.list_page);
                let Newest { tasks, more, total } = self.newest(list, &request, size);
                let next = tasks
                    .last()
                    .filter(|_| more)
                    .map(|(task, brief)| ListCursor { at: brief.at, task: (*task).clone() });
                let page: Vec<TaskId> = tasks.iter().map(|(task, _)| (*task).clone()).collect();
                let absent = page.iter().filter(|task| !self.tasks.is_loaded(task));
                let absent: Vec<TaskId> = absent.cloned().collect();
                if let Some(last) = absent.last() {
                    // All are loaded at the same time, so that the list need not be made again for each of them.
                    for task in &absent {
                        self.fetch(task);
                    }
                    return self.park(last.clone(), Parked { page, ..request });
                }
                let states: Vec<Arc<State>> = page.iter().map(|task| self.tasks[task].state.clone()).collect();
                let bytes = page.iter().map(|task| self.tasks[task].len_bytes()).sum();
                let list = list.clone();
                let extent = if list.artifacts { Extent::Whole } else { Extent::Part };
                let encode = move |form: &a2a::Form| {
                    let page = Page { tasks: states.iter().map(Arc::as_ref).collect(), next, size, total };
                    a2a::list(form, &page, SnapshotOptions::listed(list.history, list.artifacts), &list)
                };
                self.answer_encoded(conn, request.caller.form, (bytes, extent), encode, now);
            }
            other => unreachable!("{other:?} is no list"),
        }
    }

    /// Every task in memory that a client sees.
    fn all_states(&self, caller: &Caller) -> Vec<Arc<State>> {
        let all_loaded = self.tasks.values();
        let visible = all_loaded.filter(|loaded| self.sees(caller, &loaded.state.created.task));
        visible.filter(|loaded| loaded.is_shown()).map(|loaded| loaded.state.clone()).collect()
    }

    /// The tasks that match the filters of a list, in no order.
    fn matching(&self, list: &List, request: &Parked) -> Vec<(&TaskId, &Brief)> {
        let form = &request.caller.form;
        let unwritten = self.tasks.values().filter(|loaded| !loaded.is_shown());
        let unwritten: HashSet<&TaskId> = unwritten.map(|loaded| &loaded.state.created.task).collect();
        let known = self.tasks.known.iter().filter(|(task, brief)| {
            request.caller.sees(brief)
                && list.context.as_ref().is_none_or(|c| *c == brief.context)
                && list.since.is_none_or(|since| brief.at >= since)
                && list.state.is_none_or(|state| state == a2a::shown_state(form, task, brief))
                && !unwritten.contains(task)
                && !request.without.contains(task)
        });
        known.collect()
    }

    /// The newest `most` tasks behind the position of the list, newest first, whether there are more, and how many there are in all.
    fn newest(&self, list: &List, request: &Parked, most: usize) -> Newest<'_> {
        let mut tasks = self.matching(list, request);
        let total = tasks.len();
        if let Some(mark) = &list.after {
            tasks.retain(|(task, brief)| brief.at < mark.at || (brief.at == mark.at && **task > mark.task));
        }
        let more = tasks.len() > most;
        if more {
            // Only the tasks of the page are sorted: there may be a hundred thousand others.
            tasks.select_nth_unstable_by(most, newest_first);
            tasks.truncate(most);
        }
        tasks.sort_unstable_by(newest_first);
        Newest { tasks, more, total }
    }
}

struct Newest<'a> {
    tasks: Vec<(&'a TaskId, &'a Brief)>,
    more: bool,
    total: usize,
}

/// In the order of their last statuses.
fn by_status(states: &mut [Arc<State>]) -> impl Iterator<Item = &State> {
    states.sort_unstable_by(|a, b| (a.status.at, &a.created.task).cmp(&(b.status.at, &b.created.task)));
    states.iter().map(Arc::as_ref)
}

fn newest_first((a, x): &(&TaskId, &Brief), (b, y): &(&TaskId, &Brief)) -> Ordering {
    y.at.cmp(&x.at).then_with(|| a.cmp(b))
}

fn size(list: &List, most: usize) -> usize {
    if list.size == 0 { most } else { list.size.min(most) }
}

//! Lists of tasks. Which tasks are on a page is found among the briefs of all tasks; only those are brought into memory. A list
//! shows what is on disk and nothing else, so it is made when everything of this turn of the loop has been appended; a task
//! whose journal cannot be written is left out, because how it stands is not on disk.

use crate::a2a::{self, Answers, Page, Wanted};
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::Core;
use crate::core::disk::Parked;
use crate::task::call::{Call, List, Mark};
use crate::task::log::brief::Brief;
use crate::task::machine::state::State;
use std::cmp::Ordering;

impl Core {
    /// Answers a request for a list, or parks it until the tasks on its page are in memory.
    pub(in crate::core) fn list(&mut self, request: Parked, now: Now) {
        let conn = request.conn;
        self.connections.end_call(request.conn);
        let response = match &request.call {
            Call::AllMetadata => a2a::all_metadata(self.all_states(&request.form), &self.settings.tools),
            Call::List(list) if request.form.dialect.answers == Answers::Gemini => {
                let mut all = self.matching(list, &request);
                all.sort_unstable_by(newest_first);
                // This dialect has no pages: who sees that there are more than the newest takes one that has.
                let total = all.len();
                all.truncate(self.settings.limits.list_briefs);
                a2a::briefs(&request.form, all, total)
            }
            Call::List(list) => {
                let (page, next, total) = self.page(list, &request);
                let absent = page.iter().filter(|task| !self.tasks.is_loaded(task));
                let absent: Vec<TaskId> = absent.cloned().collect();
                if let Some(last) = absent.last() {
                    // All at once, so that the list need not be made again for each of them.
                    for task in &absent {
                        self.fetch(task);
                    }
                    return self.park(last.clone(), Parked { page, ..request });
                }
                let page = Page {
                    tasks: page.iter().map(|task| &self.tasks[task].state).collect(),
                    next,
                    size: size(list, self.settings.limits.list_page),
                    total,
                };
                let wanted = Wanted::listed(list.history, list.artifacts);
                a2a::list(&request.form, &page, wanted, list)
            }
            other => unreachable!("{other:?} is no list"),
        };
        self.answer(conn, &response, now);
        self.read_on(conn, now);
    }

    /// Every task in memory that this one sees, in the order of their last statuses.
    fn all_states(&self, form: &a2a::Form) -> Vec<&State> {
        let all_loaded = self.tasks.values();
        let visible = all_loaded.filter(|loaded| loaded.state.created.tenant == form.tenant);
        let written = visible.filter(|loaded| loaded.is_shown());
        let mut states: Vec<&State> = written.map(|loaded| &loaded.state).collect();
        states.sort_unstable_by_key(|state| (state.status.at, state.created.task.clone()));
        states
    }

    /// The tasks a list is about, in no order.
    fn matching(&self, list: &List, request: &Parked) -> Vec<(&TaskId, &Brief)> {
        let form = &request.form;
        let on_disk = |task: &TaskId| {
            let loaded = self.tasks.get(task);
            loaded.is_none_or(|loaded| loaded.is_shown())
        };
        let known = self.tasks.briefs().filter(|(task, brief)| {
            brief.tenant == form.tenant
                && list.context.as_ref().is_none_or(|c| *c == brief.context)
                && list.since.is_none_or(|since| brief.at >= since)
                && list.state.is_none_or(|state| state == a2a::shown_state(form, brief))
                && on_disk(task)
                && !request.without.contains(task)
        });
        known.collect()
    }

    /// The tasks on the page, where the next one begins, and how many there are on all.
    fn page(&self, list: &List, request: &Parked) -> (Vec<TaskId>, Option<Mark>, usize) {
        let mut left = self.matching(list, request);
        let total = left.len();
        if let Some(mark) = &list.after {
            left.retain(|(task, brief)| brief.at < mark.at || (brief.at == mark.at && **task > mark.task));
        }
        let size = size(list, self.settings.limits.list_page);
        let more = left.len() > size;
        if more {
            // Only what is on the page need be in order: there may be a hundred thousand others.
            left.select_nth_unstable_by(size, newest_first);
            left.truncate(size);
        }
        left.sort_unstable_by(newest_first);
        let next = left.last().filter(|_| more).map(|(task, brief)| Mark { at: brief.at, task: (*task).clone() });
        let page = left.iter().map(|(task, _)| (*task).clone()).collect();
        (page, next, total)
    }
}

fn newest_first((a, x): &(&TaskId, &Brief), (b, y): &(&TaskId, &Brief)) -> Ordering {
    y.at.cmp(&x.at).then_with(|| a.cmp(b))
}

fn size(list: &List, most: usize) -> usize {
    if list.size == 0 { most } else { list.size.min(most) }
}

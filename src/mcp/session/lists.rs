//! Reads the lists of a server page by page, and again when the server says that they have changed. One refresh of a list runs at a time, and
//! one more can be pending. If a refresh fails, the old list is kept.

use super::{Effect, Purpose, Session, Stage};
use crate::limits::mcp::{LIST_MS, LIST_PAGES, LIST_TRIES, REFRESH_MS};
use crate::mcp::catalog::{Catalog, List, Skipped};
use crate::mcp::session::Outcome;
use crate::mcp::transport::message::{METHOD_NOT_FOUND, RequestId, RpcError};
use crate::task::spec::ErrorKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Lists([Refresh; List::ALL.len()]);

#[derive(Default)]
struct Refresh {
    wanted: bool,
    /// The next refresh may not start before this time.
    not_before_ms: u64,
    running: Option<Paging>,
}

/// A list that is being read.
#[derive(Default)]
struct Paging {
    request: Option<RequestId>,
    found: Catalog,
    pages: usize,
    tries: u32,
    cursor: Option<String>,
    cursors: BTreeSet<String>,
    bad: Vec<String>,
}

impl Lists {
    fn of(&mut self, list: List) -> &mut Refresh {
        &mut self.0[list as usize]
    }

    pub(super) fn due_ms(&self) -> Option<u64> {
        let waiting = self.0.iter().filter(|refresh| refresh.wanted && refresh.running.is_none());
        waiting.map(|refresh| refresh.not_before_ms).min()
    }

    /// Aborts a refresh whose request was lost.
    pub(super) fn abort(&mut self, list: List) {
        self.of(list).running = None;
    }
}

impl Session {
    /// Requests all lists that the server declares.
    pub(super) fn list_all(&mut self) {
        for list in List::ALL {
            *self.lists.of(list) = Refresh::default();
            if self.info.capabilities.get(list.capability()).is_some_and(|declared| !declared.is_null()) {
                self.refresh(list);
            } else {
                self.replace(list, &mut Catalog::default());
            }
        }
        if self.lists.of(List::Tools).running.is_none() {
            self.ready();
        }
    }

    /// Requests a list now, or as soon as the minimum interval allows.
    pub(super) fn refresh(&mut self, list: List) {
        self.lists.of(list).wanted = true;
        self.refresh_due();
    }

    pub(super) fn refresh_due(&mut self) {
        if self.stage != Stage::Listing && self.stage != Stage::Ready {
            return;
        }
        for list in List::ALL {
            let now_ms = self.now_ms;
            let refresh = self.lists.of(list);
            if refresh.wanted && refresh.running.is_none() && refresh.not_before_ms <= now_ms {
                refresh.wanted = false;
                refresh.running = Some(Paging::default());
                self.request_list_page(list);
            }
        }
    }

    fn request_list_page(&mut self, list: List) {
        let cursor = self.lists.of(list).running.as_ref().and_then(|paging| paging.cursor.clone());
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let request = self.new_request(Purpose::List(list), list.method(), params, Some(LIST_MS));
        let id = self.send(request);
        if let Some(paging) = &mut self.lists.of(list).running {
            paging.request = Some(id);
        }
    }

    pub(super) fn list_page(&mut self, list: List, id: RequestId, result: Result<Value, RpcError>) {
        if self.lists.of(list).running.as_ref().is_none_or(|paging| paging.request != Some(id)) {
            return;
        }
        let page = match result {
            Ok(page) => page,
            Err(error) if error.code == METHOD_NOT_FOUND => Value::Object(Default::default()),
            Err(error) => return self.list_ended(list, Err(error.shown())),
        };
        let Some(paging) = &mut self.lists.of(list).running else {
            return;
        };
        let items = page.get(list.member()).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut stop = paging.add(list, items);
        paging.pages += 1;
        let next = page.get("nextCursor").filter(|cursor| !cursor.is_null() && *cursor != "");
        let Some(next) = next.filter(|_| stop.is_none()) else {
            return self.list_ended(list, Ok(stop));
        };
        match next.as_str() {
            None => stop = Some("its cursor is not a string".to_owned()),
            Some(next) if !paging.cursors.insert(next.to_owned()) => stop = Some("its cursor was repeated".to_owned()),
            Some(_) if paging.pages == LIST_PAGES => stop = Some(format!("it has more than {LIST_PAGES} pages")),
            Some(next) => paging.cursor = Some(next.to_owned()),
        }
        match stop {
            Some(stop) => self.list_ended(list, Ok(Some(stop))),
            None => self.request_list_page(list),
        }
    }

    /// Called when the transport could not get a page. Reading a list has no effects, so the page is requested again.
    pub(super) fn list_failed(&mut self, list: List, why: &str) {
        let Some(paging) = &mut self.lists.of(list).running else {
            return;
        };
        paging.tries += 1;
        match paging.tries < LIST_TRIES {
            true => self.request_list_page(list),
            false => self.list_ended(list, Err(why.to_owned())),
        }
    }

    /// Called at the end of a refresh: `Ok` with a reason if it stopped early, or an error if there is no list.
    fn list_ended(&mut self, list: List, ended: Result<Option<String>, String>) {
        let refresh = self.lists.of(list);
        refresh.not_before_ms = self.now_ms + REFRESH_MS;
        let Some(mut paging) = refresh.running.take() else {
            return;
        };
        match ended {
            Ok(stop) => {
                for why in stop.into_iter().chain(paging.bad_items()) {
                    self.notice(format!("{}: {why}", list.method()));
                }
                self.replace(list, &mut paging.found);
            }
            Err(why) if list == List::Tools && !self.was_ready => {
                return self.end(&format!("{} failed: {why}", list.method()));
            }
            Err(why) => self.notice(format!("{} failed, and the list is as before: {why}", list.method())),
        }
        if list == List::Tools && self.stage == Stage::Listing {
            self.ready();
        }
        if list == List::Tools {
            self.start_unlisted();
        }
    }

    fn replace(&mut self, list: List, by: &mut Catalog) {
        if self.catalog.replace(list, by) {
            self.out.push(Effect::Changed(list));
        }
    }

    /// Runs the calls whose tool was not listed before but is listed now. Fails the others.
    fn start_unlisted(&mut self) {
        for call in std::mem::take(&mut self.unlisted) {
            if self.catalog.tool(&call.tool).is_some() {
                self.waiting.push_back(call);
            } else {
                let why = format!("MCP server {} has no tool {} any more", self.setup.server, call.tool);
                let outcome = Outcome::Failed(ErrorKind::ToolNotRegistered.error(why));
                self.out.push(Effect::Ended { call: call.key, outcome });
            }
        }
        self.start_calls();
    }
}

impl Paging {
    /// Adds the items of a page. Returns a reason to stop, if there is one.
    fn add(&mut self, list: List, items: &[Value]) -> Option<String> {
        for item in items {
            if self.found.len(list) == list.most_items() {
                return Some(format!("it has more than {} items", list.most_items()));
            }
            match self.found.add(list, item) {
                Ok(()) => {}
                Err(Skipped::Repeated) => self.bad.push("a name is there twice".to_owned()),
                Err(Skipped::Bad(why)) => self.bad.push(why),
            }
        }
        None
    }

    fn bad_items(&self) -> Option<String> {
        let first = self.bad.first()?;
        Some(format!(
            "{} items were skipped, the first because: {}",
            self.bad.len(),
            crate::mcp::text::clean_line(first, 200)
        ))
    }
}

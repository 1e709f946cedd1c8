//! Pages of a list that continue after a name, from stores whose pages continue with a token.
//!
//! [`List::after`] is a name, so that a list can be continued at any time and at any store. A page without a name after it (because of
//! deletions, or because a folder was listed before) is followed by its token within the same call.

use crate::bucket::{Answer, BucketError, Dated, List, Page};
use crate::limits::bucket::PAGE_NAMES;
use crate::shell::bucket::http::unknown;

/// Reads until a page has a name after `list.after`, or until the end. `fetch` returns a page and the token of the next one.
pub fn read(
    list: &List,
    mut fetch: impl FnMut(Option<&str>) -> Result<(Dated<Page>, Option<String>), BucketError>,
) -> Answer<Page> {
    let mut token: Option<String> = None;
    for _ in 0..PAGE_NAMES {
        let (Dated { value: mut page, unix_ms }, next) = fetch(token.as_deref())?;
        let is_behind = |name: &str| list.after.as_deref().is_none_or(|after| name > after);
        page.entries.retain(|entry| is_behind(&entry.name));
        page.folders.retain(|folder| is_behind(folder));
        // Entries and folders are sorted together, so the later of both is the last name of the page.
        let last = page.entries.last().map(|entry| &entry.name).max(page.folders.last()).cloned();
        match (next, last) {
            (None, _) => return Ok(Dated { value: page, unix_ms }),
            (Some(_), Some(last)) => {
                page.next = Some(last);
                return Ok(Dated { value: page, unix_ms });
            }
            (Some(next), None) if token.as_ref() != Some(&next) => token = Some(next),
            (Some(_), None) => break,
        }
    }
    Err(unknown(format!("the list of {} does not end", list.prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Entry, Version};

    fn page(names: &[&str], folders: &[&str]) -> Dated<Page> {
        let entry = |name: &&str| Entry {
            name: name.to_string(),
            version: Version("1".into()),
            meta: Default::default(),
            created_unix_ms: 0,
        };
        let folders = folders.iter().map(|folder| folder.to_string()).collect();
        Dated { value: Page { entries: names.iter().map(entry).collect(), folders, next: None }, unix_ms: 7 }
    }

    fn names(page: &Page) -> Vec<&str> {
        page.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn names_up_to_after_are_left_out_and_the_last_name_continues() {
        let list = List { after: Some("b".into()), ..List::default() };
        let read = read(&list, |_| Ok((page(&["b", "c"], &["a/", "d/"]), Some("t".into())))).expect("a page").value;
        assert_eq!((names(&read), &read.folders[..]), (vec!["c"], &["d/".to_owned()][..]));
        assert_eq!(read.next.as_deref(), Some("d/"));
    }

    #[test]
    fn pages_without_a_new_name_are_skipped() {
        let list = List { after: Some("b".into()), ..List::default() };
        let mut asked = Vec::new();
        let read = read(&list, |token| {
            asked.push(token.map(str::to_owned));
            Ok(match token {
                None => (page(&["b"], &[]), Some("1".into())),
                Some("1") => (page(&[], &[]), Some("2".into())),
                Some(_) => (page(&["c"], &[]), None),
            })
        });
        let read = read.expect("a page").value;
        assert_eq!((names(&read), &read.next), (vec!["c"], &None));
        assert_eq!(asked, [None, Some("1".into()), Some("2".into())]);
    }

    #[test]
    fn a_store_that_repeats_a_token_is_not_followed_for_ever() {
        assert!(read(&List::default(), |_| Ok((page(&[], &[]), Some("t".into())))).is_err());
    }
}

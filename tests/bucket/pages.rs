//! Lists of several pages, with a fake of each store: pages have at most a thousand names, entries and folders are sorted together, and some
//! pages are empty.

use crate::server::{Reply, Request, start};
use crate::tape::decoded;
use crate::{gcs, s3};
use gemini_a2a::bucket::{Bucket, List};
use serde_json::json;
use std::collections::BTreeMap;

fn query(request: &Request) -> BTreeMap<String, String> {
    let query = request.head.target().split_once('?').map_or("", |(_, query)| query);
    let pair = |piece: &str| piece.split_once('=').map(|(name, value)| (decoded(name), decoded(value)));
    query.split('&').filter_map(pair).collect()
}

/// A page of names and folders, and whether there are more.
fn page(names: &[String], query: &BTreeMap<String, String>, begins: impl Fn(&str) -> bool) -> (Vec<String>, bool) {
    let prefix = &query["prefix"];
    let mut found: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with(prefix) && begins(name))
        .map(|name| match name[prefix.len()..].find('/').filter(|_| query.contains_key("delimiter")) {
            Some(at) => name[..=prefix.len() + at].to_owned(),
            None => name.clone(),
        })
        .collect();
    found.dedup();
    let is_cut = found.len() > 1_000;
    found.truncate(1_000);
    (found, is_cut)
}

fn google(names: Vec<String>) -> impl Fn(&Request) -> Reply {
    move |request| {
        let query = query(request);
        assert_eq!(query["maxResults"], "1000");
        let offset = query.get("startOffset").cloned().unwrap_or_default();
        // The second page of three has nothing on it.
        if !query.contains_key("pageToken") && offset == "t/0999" {
            return Reply::new(200, &[], &json!({"nextPageToken": "empty"}).to_string());
        }
        let (found, is_cut) = page(&names, &query, |name| name >= offset.as_str());
        let (folders, items): (Vec<_>, Vec<_>) = found.into_iter().partition(|name| name.ends_with('/'));
        let items: Vec<_> = items.iter().map(|name| json!({"name": name, "generation": "1"})).collect();
        let mut body = json!({"kind": "storage#objects"});
        if !items.is_empty() {
            body["items"] = json!(items);
        }
        if !folders.is_empty() {
            body["prefixes"] = json!(folders);
        }
        if is_cut {
            body["nextPageToken"] = json!("more");
        }
        Reply::new(200, &[], &body.to_string())
    }
}

fn amazon(names: Vec<String>) -> impl Fn(&Request) -> Reply {
    move |request| {
        let query = query(request);
        assert_eq!((query["list-type"].as_str(), query["max-keys"].as_str()), ("2", "1000"));
        let after = query.get("start-after").cloned().unwrap_or_default();
        let (found, is_cut) = page(&names, &query, |name| name > after.as_str());
        let element = |name: &String| match name.ends_with('/') {
            true => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
            false => format!("<Contents><Key>{name}</Key><ETag>&quot;1&quot;</ETag></Contents>"),
        };
        let next = if is_cut { "<NextContinuationToken>t</NextContinuationToken>" } else { "" };
        let listed: String = found.iter().map(element).collect();
        let body = format!("<ListBucketResult>{listed}<IsTruncated>{is_cut}</IsTruncated>{next}</ListBucketResult>");
        Reply::new(200, &[], &body)
    }
}

/// All names of a list, page by page.
fn all(bucket: &dyn Bucket, mut list: List) -> (Vec<String>, Vec<String>) {
    let (mut names, mut folders) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let page = bucket.list(&list).expect("a page").value;
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        folders.extend(page.folders);
        match page.next {
            Some(next) => list.after = Some(next),
            None => return (names, folders),
        }
    }
    panic!("the list does not end");
}

#[test]
fn every_name_comes_once() {
    let files: Vec<String> = (0..2_500).map(|n| format!("t/{n:04}")).collect();
    let inner: Vec<String> = (0..1_500).map(|n| format!("f/{n:04}/x")).collect();
    let mut names = [files.clone(), inner.clone(), vec!["f/0000/y".into(), "f/1499/y".into(), "f/z".into()]].concat();
    names.sort();
    let (at_google, at_amazon) = (start(google(names.clone())), start(amazon(names)));
    let (at_google, at_amazon) = (gcs::client("b", &at_google), s3::client("b", &at_amazon, s3::test_keys()));
    for bucket in [&at_google as &dyn Bucket, &at_amazon] {
        let flat = List { prefix: "t/".into(), ..List::default() };
        assert_eq!(all(bucket, flat.clone()), (files.clone(), vec![]));
        assert_eq!(all(bucket, List { after: Some("t/2497".into()), ..flat.clone() }).0, ["t/2498", "t/2499"]);
        assert_eq!(all(bucket, List { after: Some("t/2499".into()), ..flat }).0, [""; 0]);
        let folders: Vec<String> = inner.iter().map(|name| name.trim_end_matches('x').to_owned()).collect();
        let list = List { prefix: "f/".into(), folders: true, ..List::default() };
        assert_eq!(all(bucket, list), (vec!["f/z".to_owned()], folders));
    }
}

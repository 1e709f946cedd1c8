//! Writes JSON objects member by member, straight into a buffer: which members there are, and under which names, differs from dialect
//! to dialect, while the values are the same.

use crate::base::json;
use serde::Serialize;

pub struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

/// An object as JSON.
pub fn object(members: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(&mut out, members);
    out
}

/// A list of objects as JSON.
pub fn list<T>(items: impl IntoIterator<Item = T>, members: impl FnMut(&mut Object<'_>, T)) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_list(&mut out, items, members);
    out
}

fn write_list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut members: impl FnMut(&mut Object<'_>, T)) {
    out.push(b'[');
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, |o| members(o, item));
    }
    out.push(b']');
}

fn write(out: &mut Vec<u8>, members: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    members(&mut Object { out, is_empty: true });
    out.push(b'}');
}

impl Object<'_> {
    /// Begins a member; its value is written next. Names are ours and need no escaping.
    pub fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        json::write(self.name(name), value);
        self
    }

    /// A member that is left out if there is no value.
    pub fn optional<T: Serialize>(&mut self, name: &str, value: Option<T>) -> &mut Self {
        if let Some(value) = value {
            self.member(name, &value);
        }
        self
    }

    /// A member that is left out if its list is empty.
    pub fn filled<T: Serialize>(&mut self, name: &str, list: &[T]) -> &mut Self {
        self.optional(name, Some(list).filter(|list| !list.is_empty()))
    }

    pub fn object(&mut self, name: &str, members: impl FnOnce(&mut Object<'_>)) -> &mut Self {
        write(self.name(name), members);
        self
    }

    /// A list of objects.
    pub fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        members: impl FnMut(&mut Object<'_>, T),
    ) -> &mut Self {
        write_list(self.name(name), items, members);
        self
    }
}

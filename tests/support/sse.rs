//! A parser of server-sent events that takes bytes in pieces of any size.

use std::borrow::Cow;

#[derive(Debug, Default)]
pub struct Sse {
    text: Vec<u8>,
    /// The position from which the end of the next event is searched.
    seen: usize,
}

/// One event as it was sent. A block that has only comments is not an event.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub id: Option<&'a str>,
    pub name: Option<&'a str>,
    pub data: Cow<'a, str>,
}

impl Sse {
    /// The buffer to which decoded body bytes are appended.
    pub fn input(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Passes every complete event to `each` and removes it.
    pub fn drain(&mut self, mut each: impl FnMut(Frame<'_>)) -> Result<(), String> {
        let mut start = 0;
        while let Some(end) = self.blank_line() {
            let block = std::str::from_utf8(&self.text[start..end]);
            let block = block.map_err(|_| "an event that is not UTF-8".to_string())?;
            if let Some(frame) = frame(block) {
                each(frame);
            }
            start = self.seen;
        }
        self.text.drain(..start);
        self.seen -= start;
        Ok(())
    }

    /// The end of the block, its last newline included, that the next blank line closes; `seen` is moved behind that line.
    fn blank_line(&mut self) -> Option<usize> {
        loop {
            let newline = self.seen + self.text[self.seen..].iter().position(|b| *b == b'\n')?;
            match &self.text[newline + 1..] {
                [b'\n', ..] => {
                    self.seen = newline + 2;
                    return Some(newline + 1);
                }
                [b'\r', b'\n', ..] => {
                    self.seen = newline + 3;
                    return Some(newline + 1);
                }
                // Not yet known whether the line after this one is blank.
                [] | [b'\r'] => return None,
                _ => self.seen = newline + 1,
            }
        }
    }
}

fn frame(block: &str) -> Option<Frame<'_>> {
    let mut data: Option<Cow<'_, str>> = None;
    let (mut id, mut name) = (None, None);
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => id = Some(value),
            "event" => name = Some(value),
            "data" => {
                data = Some(match data {
                    None => Cow::Borrowed(value),
                    Some(before) => Cow::Owned(format!("{before}\n{value}")),
                });
            }
            _ => {}
        }
    }
    data.map(|data| Frame { id, name, data })
}

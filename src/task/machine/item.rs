//! The entries of a task's conversation.

use crate::task::log::answer::{Answer, Request};
use crate::task::log::blob::Blobs;
use crate::task::log::long_text::LongText;
use crate::task::log::media::{Media, MediaContent};
use crate::task::message::Message;
use crate::task::spec::Ending;
use std::io;
use std::sync::Arc;

/// An entry of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A prompt.
    Said(Arc<Message>),
    /// A prompt that came during a turn and is sent together with the results before it.
    Steered(Arc<Message>),
    /// A prompt that clients see but the model does not: its turn failed before the model had answered it.
    Dropped(Arc<Message>),
    Answered(Arc<Answer>),
    /// The model's own summary of everything before it.
    Summary(Arc<str>),
    /// A text for the model that the program added.
    Nudge(LongText),
    /// Media to which the prompt before it refers.
    Media(Vec<Media>),
    /// The results of the calls of the answer before it, in the order of its calls.
    Results(Vec<CallResult>),
}

impl Item {
    /// Loads the stored content that is sent to the model. `room` is the number of bytes of media that the request may still have; media
    /// beyond that are not loaded.
    pub fn load_content(item: &mut Arc<Item>, blobs: &dyn Blobs, room: &mut u64) -> io::Result<()> {
        if !item.has_stored_content() {
            return Ok(());
        }
        let mut load = |content: &mut MediaContent| content.load_within(blobs, room);
        match Arc::make_mut(item) {
            Item::Nudge(text) => text.load(blobs),
            Item::Media(media) => media.iter_mut().try_for_each(|media| load(&mut media.content)),
            Item::Results(results) => results.iter_mut().try_for_each(|result| {
                let ending = Arc::make_mut(&mut result.ending);
                ending.output_mut().map_or(Ok(()), |output| output.load(blobs))?;
                ending.media_mut().iter_mut().try_for_each(|media| load(&mut media.content))
            }),
            Item::Answered(answer) => Arc::make_mut(answer).media_mut().try_for_each(|media| load(&mut media.content)),
            Item::Said(message) | Item::Steered(message) => Arc::make_mut(message).load(blobs, room),
            Item::Dropped(_) | Item::Summary(_) => Ok(()),
        }
    }

    fn has_stored_content(&self) -> bool {
        let is_stored = |media: &Media| media.content.blob().is_some();
        match self {
            Item::Nudge(text) => text.missing().is_some(),
            Item::Media(media) => media.iter().any(is_stored),
            Item::Results(results) => results.iter().any(|CallResult { ending, .. }| {
                ending.output().and_then(LongText::missing).is_some() || ending.media().iter().any(is_stored)
            }),
            Item::Answered(answer) => answer.stored_media().next().is_some(),
            Item::Said(message) | Item::Steered(message) => message.stored().next().is_some(),
            Item::Dropped(_) | Item::Summary(_) => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    pub request: Request,
    pub ending: Arc<Ending>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{INLINE_BYTES, Limits};
    use crate::task::log::blob::MemoryBlobs;
    use crate::task::spec::Display;

    #[test]
    fn the_newest_media_are_loaded_up_to_the_limit() {
        let blobs = MemoryBlobs::default();
        let bytes = INLINE_BYTES as u64;
        let media = |byte: u8| {
            let mut media = Media::new("image/png", &vec![byte; INLINE_BYTES]);
            media.content.store(&blobs, &Limits::default(), &mut u64::MAX.clone());
            media.content.unload();
            media
        };
        let display = Display::Media { text: "".into(), media: vec![media(1)] };
        let request = Request { call: "c".into(), name: "n".into(), args: Default::default(), api_id: None };
        let ending = Arc::new(Ending::Success { output: "".into(), display });
        let results = Item::Results(vec![CallResult { request, ending }]);
        let history = [Item::Media(vec![media(0)]), results, Item::Nudge("text".into()), Item::Media(vec![media(2)])];
        let read = |mut room: u64| {
            let mut history = history.clone().map(Arc::new);
            for item in history.iter_mut().rev() {
                Item::load_content(item, &blobs, &mut room).unwrap();
            }
            history.map(|item| match item.as_ref() {
                Item::Media(media) => media[0].content.data().is_some(),
                Item::Results(results) => results[0].ending.media()[0].content.data().is_some(),
                _ => false,
            })
        };
        assert_eq!(read(3 * bytes), [true, true, false, true]);
        assert_eq!(read(3 * bytes - 1), [false, true, false, true]);
        assert_eq!(read(2 * bytes - 1), [false, false, false, true]);
        assert_eq!(read(bytes - 1), [false; 4]);
    }
}

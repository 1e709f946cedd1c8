//! Appending a segment to a log. The result of a number is always known before the number is left: never other bytes under a number
//! that a request of ours may still be under way for.

use crate::bucket::instance::Instance;
use crate::bucket::log::read::Read;
use crate::bucket::log::view::{Segment, View};
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::bucket::{Expect, Meta, Put, Trouble};
use std::sync::Arc;

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    /// It is in the log and applied. Another instance may have claimed the task behind it: see [`Instance::owns`].
    Done,
    /// Another segment has its number. The view has read on; the caller decides anew.
    Overtaken,
    /// The task does not exist any more. The view is unloaded.
    Gone,
}

/// What one attempt showed.
enum Attempt {
    /// The segment is in the log, and nothing can have followed it.
    Last,
    /// The segment is in the log.
    Made,
    /// Other bytes have the number.
    Taken,
    /// The task was removed.
    Gone,
    /// The number is free. Why the attempt failed, if it is known.
    Free(Option<Trouble>),
}

impl<P: Port> Instance<P> {
    /// Creates the segment behind the view's tail. After an error the result is unknown, and the view is unloaded.
    pub async fn append<R: Replica>(&self, view: &mut View<R>, lines: Vec<u8>) -> Result<Append, Halt> {
        let result = self.append_segment(view, lines.into()).await;
        if result.is_err() {
            view.unload();
        }
        result
    }

    async fn append_segment<R: Replica>(&self, view: &mut View<R>, lines: Arc<[u8]>) -> Result<Append, Halt> {
        let segment = Segment::new(view.tail.next(), lines)?;
        let name = names::segment(&view.task, segment.first);
        let mut tries = 0;
        loop {
            match self.attempt(view, &name, &segment.lines).await? {
                Attempt::Last => {
                    view.known_at = Some(view.sent_at);
                    self.take(view, &segment)?;
                    return Ok(Append::Done);
                }
                Attempt::Made => break,
                Attempt::Taken => {
                    return Ok(match self.read_on(view).await? {
                        Read::Current => Append::Overtaken,
                        Read::Gone | Read::NoLog => Append::Gone,
                    });
                }
                Attempt::Gone => {
                    view.unload();
                    return Ok(Append::Gone);
                }
                Attempt::Free(trouble) => {
                    tries += 1;
                    self.wait(trouble.as_ref(), tries).await?;
                }
            }
        }
        match self.read_behind(view, vec![segment]).await? {
            Read::Current => Ok(Append::Done),
            Read::Gone | Read::NoLog => {
                // Nobody reads a segment of a task without an entry. Deleting it only saves space, so one attempt is enough.
                let _ = self.port.delete(&name, None).await;
                Ok(Append::Gone)
            }
        }
    }

    async fn attempt<R: Replica>(&self, view: &mut View<R>, name: &str, lines: &Arc<[u8]>) -> Result<Attempt, Halt> {
        view.sent_at = self.port.now_ms();
        let answer = self.port.put(name, lines, &Meta::new(), &Expect::Absent).await.map(|answer| answer.value);
        if let Ok(Put::Made(_)) = answer {
            let is_quick = self.port.now_ms().saturating_sub(view.sent_at) <= self.times.slow_ms;
            return Ok(match is_quick && self.is_fresh(view.known_at) {
                true => Attempt::Last,
                false => Attempt::Made,
            });
        }
        match self.get(name).await?.0 {
            Some(object) if object.bytes == *lines => Ok(Attempt::Made),
            Some(_) => Ok(Attempt::Taken),
            None => match answer {
                Err(trouble) if self.is_fresh(view.known_at) => Ok(Attempt::Free(Some(trouble))),
                answer if self.has_entry(view).await? => Ok(Attempt::Free(answer.err())),
                _ => Ok(Attempt::Gone),
            },
        }
    }
}

//! Appends a segment to a log. The number of a segment is used again only when the result of every earlier request for this number is
//! known: a delayed request of this process must never create other bytes under the same number.

use crate::bucket::instance::Instance;
use crate::bucket::log::read::Read;
use crate::bucket::log::view::{Segment, View};
use crate::bucket::names;
use crate::bucket::port::{Halt, Port};
use crate::bucket::replica::Replica;
use crate::bucket::{BucketError, Expect, Meta, Put};
use std::sync::Arc;

/// The result of appending a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    /// The segment is in the log and applied. Another instance may have claimed the task in a later segment: see [`Instance::owns`].
    Done,
    /// Another instance has created a segment with this number. The view has read it; the caller decides again.
    Overtaken,
    /// The task does not exist any more. The view is unloaded.
    Gone,
}

/// The result of one attempt to create a segment.
enum Attempt {
    /// The segment is in the log, and no segment can follow it yet.
    Last,
    /// The segment is in the log. Others may follow it.
    Written,
    /// The number belongs to a segment with other bytes.
    Taken,
    /// The task was removed.
    Gone,
    /// No segment has the number. With the error of the attempt, if it failed with one.
    Free(Option<BucketError>),
}

impl<P: Port> Instance<P> {
    /// Creates the segment after the view's tail. After an error the result is unknown, and the view is unloaded.
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
                    view.tail_checked_at = Some(view.sent_at);
                    self.apply_segment(view, &segment)?;
                    return Ok(Append::Done);
                }
                Attempt::Written => break,
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
                Attempt::Free(error) => {
                    tries += 1;
                    self.back_off(error.as_ref(), tries).await?;
                }
            }
        }
        match self.read_behind(view, vec![segment]).await? {
            Read::Current => Ok(Append::Done),
            Read::Gone | Read::NoLog => {
                // No instance reads a segment of a task without an entry. Deleting it only saves space, so one attempt is enough.
                let _ = self.port.delete(&name, None).await;
                Ok(Append::Gone)
            }
        }
    }

    async fn attempt<R: Replica>(&self, view: &mut View<R>, name: &str, lines: &Arc<[u8]>) -> Result<Attempt, Halt> {
        view.sent_at = self.port.now_ms();
        let answer = self.port.put(name, lines, &Meta::new(), &Expect::Absent).await.map(|answer| answer.value);
        if let Ok(Put::Written(_)) = answer {
            let is_quick = self.port.now_ms().saturating_sub(view.sent_at) <= self.times.slow_ms;
            return Ok(match is_quick && self.is_fresh(view.tail_checked_at) {
                true => Attempt::Last,
                false => Attempt::Written,
            });
        }
        match self.get(name).await?.0 {
            Some(object) if object.bytes == *lines => Ok(Attempt::Written),
            Some(_) => Ok(Attempt::Taken),
            None => match answer {
                Err(error) if self.is_fresh(view.tail_checked_at) => Ok(Attempt::Free(Some(error))),
                answer if self.has_entry(view).await? => Ok(Attempt::Free(answer.err())),
                _ => Ok(Attempt::Gone),
            },
        }
    }
}

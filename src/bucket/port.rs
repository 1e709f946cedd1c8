//! What the protocol needs from its environment: the operations of the bucket, a clock, random numbers and waiting.

use crate::bucket::{Answer, BucketError, Deletion, Expect, List, Meta, Object, Page, Put, Version};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The bucket, the clock and the random numbers of one instance. The operations are those of [`Bucket`](crate::bucket::Bucket):
/// single attempts.
pub trait Port {
    fn get(&self, name: &str) -> impl Future<Output = Answer<Option<Object>>>;
    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> impl Future<Output = Answer<Put>>;
    fn delete(&self, name: &str, version: Option<&Version>) -> impl Future<Output = Answer<Deletion>>;
    fn list(&self, list: &List) -> impl Future<Output = Answer<Page>>;

    /// Reads several objects, in the order of the names. A port with several threads reads them concurrently.
    fn get_all(&self, names: &[String]) -> impl Future<Output = Vec<Answer<Option<Object>>>> {
        async move {
            let mut answers = Vec::with_capacity(names.len());
            for name in names {
                answers.push(self.get(name).await);
            }
            answers
        }
    }

    /// Milliseconds of a clock that only moves forward, also while the machine sleeps (`CLOCK_BOOTTIME`).
    fn now_ms(&self) -> u64;

    fn sleep(&self, ms: u64) -> impl Future<Output = ()>;

    /// A random number below `limit`.
    fn random(&self, limit: u64) -> u64;

    /// Whether the caller gives up after `tries` attempts of a request.
    fn gives_up(&self, tries: u32) -> bool;

    /// Called when a request has failed and will be repeated, for messages to the operator.
    fn report(&self, _trouble: &BucketError) {}
}

/// Why a procedure ended without a result. If an append was under way, the view is unloaded, and the log shows later whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The bucket did not answer within the attempts that the port allows, or refused the request.
    Unavailable(String),
    /// The bucket contains something that no instance wrote. An operator has to look at it.
    Damaged(String),
}

/// Runs a future that is ready at each poll: one over a port whose operations block.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("an operation of a blocking port is not ready"),
    }
}

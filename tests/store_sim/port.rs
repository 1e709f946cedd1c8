//! The port of a simulated instance: every operation is an event of the simulation.

use crate::network::segment_of;
use crate::node::Machine;
use crate::simulation::Event;
use crate::variant::Variant;
use gemini_a2a::bucket::memory::{Request, Response};
use gemini_a2a::bucket::port::Port;
use gemini_a2a::bucket::{Answer, BucketError, Dated, Deletion, Expect, List, Meta, Object, Page, Put, Version, names};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

pub struct SimPort {
    pub machine: Rc<Machine>,
    pub is_patient: bool,
}

/// The answer to an operation, as the type that it has.
macro_rules! answer {
    ($response:path, $answer:expr) => {
        $answer.map(|answer| match answer.value {
            $response(value) => Dated { value, unix_ms: answer.unix_ms },
            other => unreachable!("another operation was answered: {other:?}"),
        })
    };
}

impl SimPort {
    fn request(&self, request: Request) -> impl Future<Output = Answer<Response>> + use<> {
        let simulation = self.machine.simulation.clone();
        let mut request = Some(request);
        poll_fn(move |_| {
            if let Some(request) = request.take() {
                simulation.send(request);
                return Poll::Pending;
            }
            let answer = simulation.take_answer(simulation.current.get());
            Poll::Ready(answer.expect("a future is polled when its answer is there"))
        })
    }

    /// A segment from the joined ones: what readers would do if segments did not stay.
    async fn joined(&self, name: &str) -> Result<Option<Object>, BucketError> {
        let Some((task, first)) = segment_of(name) else {
            return Ok(None);
        };
        let list = List { prefix: names::compacts(&task), ..List::default() };
        let page = answer!(Response::List, self.request(Request::List(list)).await)?.value;
        let ranges = page.entries.iter().filter_map(|entry| names::compact_range(&task, &entry.name));
        let Some((from, to)) = ranges.filter(|(from, to)| (from.0..=to.0).contains(&first)).max() else {
            return Ok(None);
        };
        let request = Request::Get { name: names::compact(&task, from, to) };
        let object = answer!(Response::Get, self.request(request).await)?.value;
        Ok(object.map(|object| {
            let lines = object.bytes.split_inclusive(|byte| *byte == b'\n').skip((first - from.0) as usize);
            Object { bytes: lines.flatten().copied().collect(), version: object.version }
        }))
    }
}

impl Port for SimPort {
    async fn get(&self, name: &str) -> Answer<Option<Object>> {
        let answer = answer!(Response::Get, self.request(Request::Get { name: name.to_owned() }).await);
        match answer {
            Ok(Dated { value: None, unix_ms }) if self.machine.simulation.variant == Variant::SegmentsDeleted => {
                Ok(Dated { value: self.joined(name).await?, unix_ms })
            }
            answer => answer,
        }
    }

    async fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        let (name, bytes, meta, expect) = (name.to_owned(), bytes.clone(), meta.clone(), expect.clone());
        answer!(Response::Put, self.request(Request::Put { name, bytes, meta, expect }).await)
    }

    async fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        let request = Request::Delete { name: name.to_owned(), version: version.cloned() };
        answer!(Response::Delete, self.request(request).await)
    }

    async fn list(&self, list: &List) -> Answer<Page> {
        answer!(Response::List, self.request(Request::List(list.clone())).await)
    }

    fn now_ms(&self) -> u64 {
        self.machine.now_ms()
    }

    fn sleep(&self, ms: u64) -> impl Future<Output = ()> {
        let machine = self.machine.clone();
        let mut is_waiting = false;
        poll_fn(move |_| {
            if std::mem::replace(&mut is_waiting, true) {
                return Poll::Ready(());
            }
            let simulation = &machine.simulation;
            simulation.schedule(machine.duration(ms), Event::Poll(simulation.current.get()));
            Poll::Pending
        })
    }

    fn random(&self, limit: u64) -> u64 {
        self.machine.simulation.below(limit)
    }

    fn gives_up(&self, tries: u32) -> bool {
        !self.is_patient && tries > 1 && self.machine.simulation.percent(30)
    }
}

//! A bucket that counts its requests and measures their durations for the metrics.

use crate::bucket::{Answer, Bucket, BucketErrorKind, Deletion, Expect, List, Meta, Object, Page, Put, Version};
use crate::core::operation::metrics::labels::{BucketOperation, BucketResult};
use crate::shell::event_loop::figures::Stopwatch;
use std::sync::Arc;

pub struct MeasuredBucket {
    pub bucket: Arc<dyn Bucket>,
    pub stopwatch: Stopwatch,
}

impl MeasuredBucket {
    fn measure<T>(
        &self,
        operation: BucketOperation,
        request: impl FnOnce() -> Answer<T>,
        is_refused: impl Fn(&T) -> bool,
    ) -> Answer<T> {
        self.stopwatch.bucket(operation, request, |answer| match answer {
            Ok(answer) if is_refused(&answer.value) => BucketResult::Refused,
            Ok(_) => BucketResult::Done,
            Err(error) => match error.kind {
                BucketErrorKind::Unknown => BucketResult::Unknown,
                BucketErrorKind::Forbidden => BucketResult::Forbidden,
                BucketErrorKind::Unsupported => BucketResult::Unsupported,
                BucketErrorKind::Damaged => BucketResult::Damaged,
            },
        })
    }
}

impl Bucket for MeasuredBucket {
    fn get(&self, name: &str) -> Answer<Option<Object>> {
        self.measure(BucketOperation::Get, || self.bucket.get(name), |_| false)
    }

    fn put(&self, name: &str, bytes: &Arc<[u8]>, meta: &Meta, expect: &Expect) -> Answer<Put> {
        let request = || self.bucket.put(name, bytes, meta, expect);
        self.measure(BucketOperation::Put, request, |put| *put == Put::PreconditionFailed)
    }

    fn delete(&self, name: &str, version: Option<&Version>) -> Answer<Deletion> {
        let request = || self.bucket.delete(name, version);
        self.measure(BucketOperation::Delete, request, |deletion| *deletion == Deletion::PreconditionFailed)
    }

    fn list(&self, list: &List) -> Answer<Page> {
        self.measure(BucketOperation::List, || self.bucket.list(list), |_| false)
    }

    fn lists_metadata(&self) -> bool {
        self.bucket.lists_metadata()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::memory::MemoryBucket;

    #[test]
    fn requests_are_counted_by_operation_and_result() {
        let stopwatch = Stopwatch::default();
        let bucket = MeasuredBucket { bucket: Arc::new(MemoryBucket::default()), stopwatch: stopwatch.clone() };
        let put = || bucket.put("a", &Arc::from(*b"1"), &Meta::new(), &Expect::Absent).expect("it answers").value;
        assert!(matches!(put(), Put::Written(_)));
        assert_eq!(put(), Put::PreconditionFailed);
        bucket.get("a").expect("it answers");
        let timings = stopwatch.timings().bucket;
        let count =
            |operation: BucketOperation, result: BucketResult| timings[operation as usize].results[result as usize];
        assert_eq!(count(BucketOperation::Put, BucketResult::Done), 1);
        assert_eq!(count(BucketOperation::Put, BucketResult::Refused), 1);
        assert_eq!(count(BucketOperation::Get, BucketResult::Done), 1);
        assert_eq!(timings[BucketOperation::Put as usize].duration.counts.iter().sum::<u64>(), 2);
        assert_eq!(timings[BucketOperation::List as usize].results, [0; BucketResult::ALL.len()]);
    }
}

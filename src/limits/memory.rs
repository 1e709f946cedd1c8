//! The limits of a server with a memory budget.

use super::{KIB, Limits, MIB};

/// With this much memory or more, the defaults fit and a budget changes nothing.
const ENOUGH_BYTES: u64 = 4 << 30;

/// The program itself: code, the event loop, one thread per kind of job.
const PROGRAM_BYTES: u64 = 6 * MIB as u64;

/// Memory that a request takes for each of its bytes, at most. While it is decoded, its bytes, its JSON values and its message exist at
/// the same time; while the model is asked, the message, the JSON of the model request and its bytes. Spare capacity of growing buffers
/// takes the rest.
const REQUEST_FACTOR: usize = 4;

impl Limits {
    /// The limits of a server that may use this many bytes of memory.
    pub fn within(bytes: u64) -> Limits {
        Limits::default().with_memory(Some(bytes))
    }

    /// Reduces the limits to a memory budget; None is any amount. Each line below gives the share of the budget that a limit gets, and the
    /// least value with which a server can work; with a budget below about 8 MiB these least values exceed the budget. The memory of
    /// requests, tasks and answers is counted together and gets five eighths of what the program itself does not need. The other lines
    /// limit memory that is not counted.
    pub fn with_memory(self, bytes: Option<u64>) -> Limits {
        let Some(budget) = bytes.filter(|bytes| *bytes < ENOUGH_BYTES) else {
            return Limits { memory: None, ..self };
        };
        let counted = (budget.saturating_sub(PROGRAM_BYTES) / 8 * 5).max(budget / 8);
        let counted = usize::try_from(counted).unwrap_or(usize::MAX);
        let part = |limit: usize, divisor: usize, least: usize| {
            let part = usize::try_from(budget / divisor as u64).unwrap_or(usize::MAX);
            limit.min(part.max(least))
        };
        let part_u64 = |limit: u64, divisor, least| part(limit as usize, divisor, least) as u64;
        let request_bytes = (counted / REQUEST_FACTOR).max(16 * KIB);
        Limits {
            memory: Some(budget),
            // Counted together.
            output_bytes_total: counted,
            body_bytes: self.body_bytes.min(request_bytes),
            ws_message_bytes: self.ws_message_bytes.min(request_bytes),
            task_total_bytes: self.task_total_bytes.min(counted / 4),
            model_event_bytes: self.model_event_bytes.min(counted / 8),
            model_answer_bytes: self.model_answer_bytes.min(counted / 8),
            // Numbers: one for so many bytes of the budget.
            connections: part(self.connections, 32 * KIB, 16),
            subs: part(self.subs, 32 * KIB, 16),
            tasks: part(self.tasks, 32 * KIB, 16),
            notes: part(self.notes, 64 * KIB, 64),
            trees: part(self.trees, 128 * KIB, 1),
            background_kept: part(self.background_kept, 512 * KIB, 8),
            list_page: part(self.list_page, MIB, 8),
            pages: part(self.pages, 8 * MIB, 1),
            // Threads, with their stacks and what their jobs read.
            model_threads: part(self.model_threads, 4 * MIB, 1),
            model_idle: part(self.model_idle, 4 * MIB, 1),
            webhook_threads: part(self.webhook_threads, 16 * MIB, 1),
            bucket_threads: part(self.bucket_threads, 16 * MIB, 2),
            tool_threads: part(self.tool_threads, 32 * MIB, 1),
            disk_threads: part(self.disk_threads, 32 * MIB, 1),
            compute_threads: part(self.compute_threads, 64 * MIB, 1),
            // Lengths: the budget divided by this number.
            hot_total_bytes: part(self.hot_total_bytes, 32, 64 * KIB),
            output_bytes: part(self.output_bytes, 32, 64 * KIB),
            file_bytes: part_u64(self.file_bytes, 64, 64 * KIB),
            media_bytes: part_u64(self.media_bytes, 64, 64 * KIB),
            fetch_bytes: part_u64(self.fetch_bytes, 64, 64 * KIB),
            live_bytes: part(self.live_bytes, 64, 16 * KIB),
            attached_chars: part(self.attached_chars, 64, 64 * KIB),
            hot_bytes: part(self.hot_bytes, 128, 32 * KIB),
            memory_bytes: part(self.memory_bytes, 128, 16 * KIB),
            search_chars: part(self.search_chars, 256, 16 * KIB),
            tx_bytes: part(self.tx_bytes, 1024, 16 * KIB),
            socket_send_bytes: part(self.socket_send_bytes, 1024, 16 * KIB),
            ..self
        }
    }

    /// Memory that is reserved for a request of this length. Without a budget its bytes are counted, and nothing else.
    pub fn reserved(&self, request_bytes: usize) -> usize {
        if self.memory.is_some() { request_bytes * REQUEST_FACTOR } else { request_bytes }
    }

    /// Memory that is reserved to encode so many bytes of a task: first its values and their JSON exist at the same time, then the JSON and
    /// the bytes to be sent.
    pub fn encoded(&self, bytes: usize) -> usize {
        if self.memory.is_some() { 2 * bytes } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_budget_changes_nothing() {
        assert_eq!(Limits::within(ENOUGH_BYTES), Limits::default());
        assert_eq!(Limits::default().with_memory(None), Limits::default());
        let less = Limits::within(ENOUGH_BYTES - 1);
        let other = Limits { memory: None, output_bytes_total: Limits::default().output_bytes_total, ..less.clone() };
        assert_eq!(other, Limits::default(), "only the counted memory differs");
        assert!(less.output_bytes_total > less.reserved(Limits::default().output_bytes_total));
    }

    #[test]
    fn limits_shrink_with_the_budget() {
        let caps = |mib: u64| {
            let limits = Limits::within(mib << 20);
            (limits.body_bytes / KIB, limits.connections, limits.model_threads, limits.tool_threads, limits.file_bytes)
        };
        assert_eq!(caps(1_024), (10_240, 20_000, 256, 32, 16 << 20));
        assert_eq!(caps(64), (9_280, 2_048, 16, 2, 1 << 20));
        assert_eq!(caps(32), (4_160, 1_024, 8, 1, 512 << 10));
        assert_eq!(caps(16), (1_600, 512, 4, 1, 256 << 10));
        assert_eq!(caps(4), (128, 128, 1, 1, 64 << 10));
    }

    #[test]
    fn a_server_can_work_with_any_budget() {
        for bytes in [0, 1, 1 << 20] {
            let limits = Limits::within(bytes);
            assert_eq!((limits.model_threads, limits.pages, limits.connections), (1, 1, 32.min(limits.connections)));
            assert!(limits.body_bytes >= 16 * KIB);
        }
    }

    #[test]
    fn files_and_memory_reduce_independently() {
        let both = |files| {
            (
                Limits::within(64 << 20).with_files(files),
                Limits::default().with_files(files).with_memory(Some(64 << 20)),
            )
        };
        for files in [None, Some(64), Some(20_000)] {
            let (one, other) = both(files);
            assert_eq!(one, other);
        }
        assert_eq!(both(Some(64)).0.connections, 16);
        assert_eq!(both(None).0.connections, 2_048);
    }
}

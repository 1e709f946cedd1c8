//! The call `blob`: returns content that is stored beside the logs, if the log of the named task names it. The disk lane reads it.

use crate::a2a;
use crate::base::clock::Now;
use crate::base::id::TaskId;
use crate::core::requests::Caller;
use crate::core::{BlobRequest, Core, Out};
use crate::task::fault::{Fault, FaultKind};
use std::sync::Arc;

impl Core {
    /// Reads stored content. Content that the task's own log does not name is not found, whether it is stored or not.
    pub(in crate::core) fn blob(
        &mut self,
        caller: &Caller,
        task: &TaskId,
        sha256: String,
        from: u64,
    ) -> Result<(), Fault> {
        if !self.tasks[task].state.blobs.contains_key(&sha256) {
            let message = format!("The log of task {task} names no stored content {sha256}.");
            return Err(Fault::new(FaultKind::ContentNotFound, message));
        }
        self.connections.begin_call(caller.conn);
        self.out.push(Out::Blob(Arc::new(BlobRequest { caller: caller.clone(), sha256, from })));
        Ok(())
    }

    /// The content was read, or cannot be.
    pub(in crate::core) fn blob_read(&mut self, request: &BlobRequest, read: Result<(Vec<u8>, u64), String>, now: Now) {
        let BlobRequest { caller: Caller { conn, form, .. }, sha256, from } = request;
        self.connections.end_call(*conn);
        match read {
            Ok((bytes, len)) => self.answer(*conn, &a2a::blob(form, sha256, *from, &bytes, len), now),
            Err(why) => {
                let fault = Fault::new(FaultKind::Storage, format!("The content cannot be read: {why}."));
                self.refuse(*conn, form, &fault, now);
            }
        }
        self.read_on(*conn, now);
    }
}

#[cfg(test)]
mod tests {
    use crate::a2a::Dialect;
    use crate::core::disk::store::Archive;
    use crate::core::test_core::TestCore;
    use crate::task::call::Call;
    use crate::task::log::blob::{FileChange, FileVersion};
    use crate::task::log::event::Event;
    use crate::task::machine::decide::Decision;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_task_shows_the_content_that_its_own_log_names() {
        let mut test = TestCore::new();
        let (mine, other) = (test.begin(Dialect::RPC_03, None), test.begin(Dialect::RPC_03, None));
        let sha256 = test.store.blobs().put(b"abcde").unwrap();
        let version = |sha256: &str, unstored| FileVersion { sha256: sha256.into(), len: 5, mode: 0o644, unstored };
        let change = FileChange {
            call: "c".into(),
            root: "/w".into(),
            path: "a".into(),
            before: Some(version("gone", true)),
            after: version(&sha256, false),
            dirs: 0,
        };
        let events = vec![Event::FileChanged(Arc::new(change))];
        test.core.commit(&mine, Decision { events, effects: Vec::new() }, test.now);
        let mut ask = |task: &str, sha256: &str, from| {
            test.ask(Dialect::NATIVE, Call::Blob { task: task.into(), sha256: sha256.into(), from })
        };
        let piece = |from: u64, data: &str| json!({"sha256": sha256, "from": from, "len": 5, "data": data});
        assert_eq!(ask(mine.as_str(), &sha256, 0)["ok"], piece(0, "YWJj"));
        assert_eq!(ask(mine.as_str(), &sha256, 3)["ok"], piece(3, "ZGU="));
        assert_eq!(ask(mine.as_str(), &sha256, 9)["ok"], piece(9, ""));
        for (task, sha256) in [(other.as_str(), sha256.as_str()), (mine.as_str(), "gone"), (mine.as_str(), "../x")] {
            assert_eq!(ask(task, sha256, 0)["error"]["reason"], "CONTENT_NOT_FOUND");
        }
        assert_eq!(ask("nobody", &sha256, 0)["error"]["reason"], "TASK_NOT_FOUND");
    }
}

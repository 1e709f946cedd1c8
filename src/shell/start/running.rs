//! A server that runs in a thread of its own, in the process of its client.

use crate::shell::event_loop::server::Ended;
use crate::shell::event_loop::stop::StopHandle;
use crate::shell::start::embed::Server;
use std::io;
use std::thread::{Builder, JoinHandle};

/// The stack of the server's thread: as large as that of the first thread of a process.
const SERVER_STACK: usize = 8 * 1024 * 1024;

/// A running server. Dropping it ends the server in an orderly way.
pub struct Running {
    stop: StopHandle,
    thread: Option<JoinHandle<io::Result<Ended>>>,
}

impl Running {
    pub fn start(server: Server) -> io::Result<Running> {
        let stop = server.stop_handle();
        let thread = Builder::new().name("server".into()).stack_size(SERVER_STACK).spawn(move || server.run())?;
        Ok(Running { stop, thread: Some(thread) })
    }

    /// Waits until the server has ended.
    pub fn end(mut self) -> io::Result<()> {
        self.stop.stop();
        let failed = |_| Err(io::Error::other("it has panicked; see its log"));
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(failed).map(drop))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

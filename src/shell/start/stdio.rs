//! The Agent Client Protocol over standard input and output: two threads copy bytes between them and a connection to the server of this
//! process. Standard input and output may be files of any kind and are shared with other processes, so they are used with calls that block.

use crate::limits::LAST_OUTPUT_MS;
use crate::shell::event_loop::server::Ended;
use crate::shell::start::embed::Server;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::Builder;
use std::time::Duration;

const STACK: usize = 64 * 1024;
const BUFFER: usize = 16 * 1024;

/// Runs until standard input ends, standard output is closed, or a signal ends it.
pub fn run(mut server: Server) -> io::Result<Ended> {
    let input: UnixStream = server.connect_editor()?;
    let output = input.try_clone()?;
    let stop = server.stop_handle();
    let (written, all_written) = mpsc::channel::<()>();
    Builder::new().name("stdin".into()).stack_size(STACK).spawn(move || {
        copy(io::stdin(), &input);
        // The server answers the requests that it has received, then it closes the connection.
        let _ = input.shutdown(Shutdown::Write);
    })?;
    Builder::new().name("stdout".into()).stack_size(STACK).spawn(move || {
        copy(&output, io::stdout());
        stop.stop();
        drop(written);
    })?;
    let ended = server.run();
    // The connection is closed. Waits until its last bytes are written, if somebody reads them.
    let _ = all_written.recv_timeout(Duration::from_millis(LAST_OUTPUT_MS));
    ended
}

/// Copies until one side ends.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = [0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                if to.write_all(&buffer[..length]).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

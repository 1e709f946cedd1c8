//! The connection to the server in this process: a socket pair that carries one frame per line.

use crate::limits::ui::{FRAME_LINE_BYTES, LINK_READ_BYTES};
use crate::shell::terminal::connection::link::{Link, LinkEvent};
use crate::shell::terminal::write_buffer::WriteBuffer;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

pub struct InProcess {
    stream: Option<UnixStream>,
    is_new: bool,
    output: WriteBuffer,
    /// The bytes of an incomplete line.
    input: Vec<u8>,
}

impl InProcess {
    pub fn new(stream: UnixStream) -> io::Result<InProcess> {
        stream.set_nonblocking(true)?;
        Ok(InProcess { stream: Some(stream), is_new: true, output: WriteBuffer::default(), input: Vec::new() })
    }

    fn close(&mut self, why: &str, arrivals: &mut Vec<LinkEvent>) {
        self.stream = None;
        arrivals.push(LinkEvent::Closed(why.into()));
    }

    fn read(&mut self, arrivals: &mut Vec<LinkEvent>) {
        let mut buffer = [0; 16 * 1024];
        let mut room = LINK_READ_BYTES;
        while let Some(stream) = self.stream.as_ref().filter(|_| room > 0) {
            match rustix::io::read(stream, &mut buffer) {
                Ok(0) => self.close("the server has ended", arrivals),
                Ok(length) => {
                    room = room.saturating_sub(length);
                    self.split(&buffer[..length], arrivals);
                    if self.input.len() > FRAME_LINE_BYTES {
                        self.close("the server sent a message that is too long", arrivals);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => self.close(&format!("the connection to the server broke: {error}"), arrivals),
            }
        }
    }

    fn split(&mut self, mut bytes: &[u8], arrivals: &mut Vec<LinkEvent>) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.input.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.input);
            arrivals.push(LinkEvent::Frame(String::from_utf8_lossy(&line).into_owned()));
        }
        self.input.extend_from_slice(bytes);
    }
}

impl Link for InProcess {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    fn wants_write(&self) -> bool {
        !self.output.is_empty()
    }

    fn due(&self) -> Option<u64> {
        self.is_new.then_some(0)
    }

    fn send(&mut self, frame: &str) {
        self.output.push(frame.as_bytes());
        self.output.push(b"\n");
    }

    fn advance(&mut self, _: u64) -> Vec<LinkEvent> {
        let mut arrivals = Vec::new();
        if std::mem::take(&mut self.is_new) {
            arrivals.push(LinkEvent::Connected);
        }
        if let Some(stream) = &self.stream {
            // An error is ignored here; reading reports a broken connection.
            let _ = self.output.write_to(|bytes| rustix::io::write(stream, bytes));
        }
        self.read(&mut arrivals);
        arrivals
    }
}

//! Requests to the kernel over netlink: one request, one response. The kernel responds within the call that sends the request, so there
//! is nothing to wait for: the sockets do not block, and a response that is not there at once is an error.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use std::io;
use std::os::fd::OwnedFd;

pub(super) const AF_INET: u8 = 2;
pub(super) const AF_INET6: u8 = 10;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
/// The length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// More than the longest response.
const RESPONSE_BYTES: usize = 1024;

/// A socket of one netlink protocol. It is kept between requests.
pub(super) struct Netlink {
    /// None where this protocol cannot be used.
    socket: Option<OwnedFd>,
    /// The sequence number of the last request.
    number: u32,
}

/// A response, without its header.
pub(super) struct Response<'a> {
    /// The message type.
    pub kind: u16,
    pub body: &'a [u8],
}

impl Netlink {
    /// None as the protocol means rtnetlink, which has the number 0.
    pub fn open(protocol: Option<Protocol>) -> Netlink {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Netlink { socket: socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol).ok(), number: 0 }
    }

    pub fn closed() -> Netlink {
        Netlink { socket: None, number: 0 }
    }

    pub fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Sends a request and returns what `parse` makes of the response; None from `parse` means that the response is not valid. An error
    /// that the kernel responds with is returned as an error.
    pub fn request<T>(
        &mut self,
        kind: u16,
        body: &[u8],
        parse: impl FnOnce(Response<'_>) -> Option<T>,
    ) -> io::Result<T> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        self.number = self.number.wrapping_add(1);
        sendto(socket, &message(kind, self.number, body), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut bytes = [0; RESPONSE_BYTES];
        loop {
            let (count, _) = recv(socket, &mut bytes, RecvFlags::empty())?;
            // Responses to earlier requests may still be queued.
            if let Some(response) = response(&bytes[..count.min(bytes.len())], self.number) {
                return parse(response?).ok_or_else(|| io::ErrorKind::InvalidData.into());
            }
        }
    }
}

fn message(kind: u16, number: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    message.extend_from_slice(&number.to_ne_bytes());
    // The port id of the kernel.
    message.extend_from_slice(&[0; 4]);
    message.extend_from_slice(body);
    message
}

/// The response to the request with this number; None if these bytes are the response to another one.
fn response(bytes: &[u8], number: u32) -> Option<io::Result<Response<'_>>> {
    let kind = u16::from_ne_bytes(field(bytes, 4)?);
    if u32::from_ne_bytes(field(bytes, 8)?) != number {
        return None;
    }
    if kind == NLMSG_ERROR {
        let code = i32::from_ne_bytes(field(bytes, HEADER)?);
        return Some(Err(io::Error::from_raw_os_error(code.saturating_neg())));
    }
    Some(Ok(Response { kind, body: bytes.get(HEADER..).unwrap_or_default() }))
}

/// The bytes at a position; None if there are too few.
pub(super) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_response_and_one_to_another_request_are_ignored() {
        let sent = message(20, 7, b"body");
        assert_eq!(sent.len(), HEADER + 4);
        let own = response(&sent, 7).expect("the number fits").expect("it is no error");
        assert_eq!((own.kind, own.body), (20, &b"body"[..]));
        assert!(response(&sent, 8).is_none());
        for len in 0..12 {
            assert!(response(&sent[..len], 7).is_none(), "{len}");
        }
    }

    #[test]
    fn an_error_of_the_kernel_is_an_error() {
        let refused = |code: i32| response(&message(NLMSG_ERROR, 7, &code.to_ne_bytes()), 7).map(|it| it.map(drop));
        let kind = |code: i32| refused(code).expect("the number fits").expect_err("an error").kind();
        assert_eq!(kind(-libc::ENOENT), io::ErrorKind::NotFound);
        assert!(refused(i32::MIN).is_some_and(|it| it.is_err()));
        assert!(response(&message(NLMSG_ERROR, 7, b""), 7).is_none());
    }
}

//! Takes the place of the filters on architectures that they are not written for, where system calls have other numbers, and some numbers
//! stand for several calls. Commands cannot be confined there, so each needs approval.

use std::io;

pub fn restrict_calls() -> io::Result<()> {
    Err(io::Error::other("none is written for this architecture"))
}

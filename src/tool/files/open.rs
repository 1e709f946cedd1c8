//! Opens entries of a directory: not through symbolic links, and without waiting for the other end of a pipe.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::path::Arg;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The flags that open a directory as a base for further paths, not for listing it.
pub const DIRECTORY_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory for listing.
pub fn directory(parent: impl AsFd, name: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

/// Opens a regular file for reading.
pub fn regular_file(dir: impl AsFd, name: impl Arg) -> io::Result<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    check_regular(&stat)?;
    Ok((File::from(fd), stat))
}

pub fn check_regular(stat: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

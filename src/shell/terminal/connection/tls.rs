//! The byte stream of a connection to a server, with or without TLS. The TLS handshake blocks, so the thread that connects makes it;
//! afterwards reading and writing do not block.

use crate::limits::ui::LINK_CONNECT_MS;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The application protocol that is negotiated with ALPN.
const HTTP_1_1: &[u8] = b"http/1.1";

pub enum Stream {
    /// Does not block.
    Plain(File),
    Tls(Box<Tls>),
}

pub struct Tls {
    connection: ClientConnection,
    /// Does not block.
    socket: TcpStream,
}

/// The certificates that are trusted: those of a PEM file, otherwise the built-in ones. The model client trusts the same ones.
pub fn config(file: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match file.filter(|file| !file.is_empty()) {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let pem = std::fs::read(file).map_err(|error| format!("SSL_CERT_FILE: {file}: {error}"))?;
            roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
            if roots.is_empty() {
                return Err(format!("SSL_CERT_FILE: there is no PEM certificate in {file}"));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| format!("TLS cannot be used: {error}"))?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    Ok(Arc::new(config))
}

/// Agrees on TLS with the server of this name. An error of the kind `InvalidData` means that the server cannot be trusted.
pub fn handshake(mut socket: TcpStream, config: Arc<ClientConfig>, host: &str) -> io::Result<Stream> {
    let until = Instant::now() + Duration::from_millis(LINK_CONNECT_MS);
    let wrong = |_| io::Error::new(ErrorKind::InvalidData, "there are no certificates for such a host name");
    let name = ServerName::try_from(host.to_owned()).map_err(wrong)?;
    let mut connection = ClientConnection::new(config, name).map_err(|error| insecure(&error))?;
    while connection.is_handshaking() {
        let remaining = until.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, "it does not answer"));
        }
        socket.set_read_timeout(Some(remaining))?;
        socket.set_write_timeout(Some(remaining))?;
        while connection.wants_write() {
            connection.write_tls(&mut socket).map_err(late)?;
        }
        if connection.is_handshaking() && connection.read_tls(&mut socket).map_err(late)? == 0 {
            let why = "it closed the connection instead of agreeing on TLS; if it speaks plain HTTP, write http://";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        if let Err(error) = connection.process_new_packets() {
            // Sends the alert with the reason; whether the server receives it does not matter.
            let _ = connection.write_tls(&mut socket);
            return Err(insecure(&error));
        }
    }
    socket.set_nonblocking(true)?;
    Ok(Stream::Tls(Box::new(Tls { connection, socket })))
}

fn late(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, "it does not answer"),
        _ => error,
    }
}

fn insecure(error: &Error) -> io::Error {
    let why = match error {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another host name".to_owned(),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired".to_owned()
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; is the clock of this machine right?".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is of an unknown authority; if you trust it, set SSL_CERT_FILE to its certificate"
                .to_owned()
        }
        Error::InvalidCertificate(other) => format!("its certificate is not valid: {other}"),
        Error::AlertReceived(alert) => format!("it does not agree on TLS: {alert:?}"),
        Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
            "it does not speak TLS; if it speaks plain HTTP, write http://".to_owned()
        }
        other => format!("it does not agree on TLS: {other}"),
    };
    io::Error::new(ErrorKind::InvalidData, why)
}

impl Stream {
    pub fn plain(socket: TcpStream) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        Ok(Stream::Plain(File::from(OwnedFd::from(socket))))
    }

    /// Whether bytes that were written wait for the socket.
    pub fn wants_write(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(tls) => tls.connection.wants_write(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Plain(file) => file.as_fd(),
            Stream::Tls(tls) => tls.socket.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(file) => file.read(buffer),
            Stream::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(file) => file.write(bytes),
            Stream::Tls(tls) => tls.write(bytes),
        }
    }

    /// Writes buffered bytes, as many as the socket accepts.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(tls) => tls.write_out(),
        }
    }
}

impl Tls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.connection.read_tls(&mut self.socket)?;
            self.connection.process_new_packets().map_err(|error| insecure(&error))?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.connection.writer().write(bytes)?;
        match self.write_out() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            // The TLS buffer is full until the socket accepts bytes.
            Err(_) if count == 0 && !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            Ok(()) | Err(_) => Ok(count),
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

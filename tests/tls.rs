//! Our own clients over `https://` and `wss://`: through a proxy that ends TLS, as nginx does, and against servers that cannot be trusted.
//! The certificates are made by `openssl` when the test runs.

#[path = "headless/program.rs"]
#[allow(dead_code, reason = "this test runs other command lines")]
mod program;
mod support;

use program::{Ended, finish};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use support::TempDir;
use support::fake::FakeGemini;
use support::server::{Server, Setup};

/// An authority, and certificates that it has signed.
struct Authority {
    dir: TempDir,
}

const CONFIG: &str = "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\npolicy=any\n\
    default_md=sha256\ncertificate=ca.pem\nprivate_key=ca.key\nunique_subject=no\n[any]\ncommonName=supplied\n";

impl Authority {
    /// None if there is no `openssl`.
    fn new(name: &str) -> Option<Authority> {
        if Command::new("openssl").arg("version").output().is_err() {
            eprintln!("skipped: there is no openssl");
            return None;
        }
        let authority = Authority { dir: TempDir::new("authority") };
        for (name, text) in [("ca.cnf", CONFIG), ("index.txt", "")] {
            std::fs::write(authority.path(name), text).expect("our own folder");
        }
        authority.openssl(&format!("req -x509 {KEY} -keyout ca.key -out ca.pem -days 2 -subj /CN={name}"));
        Some(authority)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn openssl(&self, args: &str) {
        let ended =
            Command::new("openssl").args(args.split(' ')).current_dir(self.dir.path()).output().expect("openssl");
        assert!(ended.status.success(), "{args}: {}", String::from_utf8_lossy(&ended.stderr));
    }

    /// A server with a certificate for this host, valid for this time.
    fn config(&self, host: &str, dates: &str) -> Arc<ServerConfig> {
        let text = format!("subjectAltName=DNS:{host}\nbasicConstraints=CA:FALSE\n");
        std::fs::write(self.path("ext.cnf"), text).expect("our own folder");
        self.openssl(&format!("req {KEY} -keyout server.key -out server.csr -subj /CN={host}"));
        self.openssl(&format!(
            "ca -batch -notext -config ca.cnf -in server.csr -out server.pem -extfile ext.cnf {dates}"
        ));
        let certificate = CertificateDer::from_pem_file(self.path("server.pem")).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_no_client_auth();
        Arc::new(builder.with_single_cert(vec![certificate], key).expect("they belong together"))
    }
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
const VALID: &str = "-days 1";
const EXPIRED: &str = "-startdate 20200101000000Z -enddate 20210101000000Z";

/// Ends TLS in front of a server. Returns its port.
fn proxy(config: Arc<ServerConfig>, server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for outside in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            thread::spawn(move || {
                let inside = TcpStream::connect(("127.0.0.1", server)).expect("the server");
                let _ = forward(connection, outside, inside);
            });
        }
    });
    port
}

/// Copies bytes both ways until one side ends.
fn forward(mut tls: ServerConnection, mut outside: TcpStream, mut inside: TcpStream) -> std::io::Result<()> {
    outside.set_nonblocking(true)?;
    inside.set_nonblocking(true)?;
    let blocks = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
    let mut bytes = [0; 16 * 1024];
    loop {
        match tls.read_tls(&mut outside) {
            Ok(0) => return Ok(()),
            Err(error) if !blocks(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
        tls.process_new_packets().map_err(std::io::Error::other)?;
        match tls.reader().read(&mut bytes) {
            Ok(count) => inside.write_all(&bytes[..count])?,
            Err(error) if !blocks(&error) => return Err(error),
            Err(_) => {}
        }
        match inside.read(&mut bytes) {
            Ok(0) => tls.send_close_notify(),
            Ok(count) => tls.writer().write_all(&bytes[..count])?,
            Err(error) if !blocks(&error) => return Err(error),
            Err(_) => {}
        }
        while tls.wants_write() {
            match tls.write_tls(&mut outside) {
                Err(error) if blocks(&error) => thread::sleep(Duration::from_millis(1)),
                written => drop(written?),
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A client with a token of its own and without a server of its own.
fn client(authority: &Authority, token: &str, args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    command.args(args).env_clear().env("HOME", authority.dir.path()).env("XDG_STATE_HOME", authority.path("none"));
    command.env("SSL_CERT_FILE", authority.path("ca.pem")).env("GEMINI_A2A_TOKEN", token);
    finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program"))
}

fn guarded(fake: &FakeGemini, state: &Path) -> (Server, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    command.args(["token", "add", "ann", "--rights", "view,prompt,approve", "--state-dir"]).arg(state);
    let added = command.env_clear().env("HOME", state).output().expect("the program");
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let server = Setup::new(fake).args(["--access", "token", "--public-url", "https://localhost"]).state_dir(state);
    (server.start(), String::from_utf8(added.stdout).expect("text").trim().to_owned())
}

#[test]
fn clients_work_through_a_proxy_that_terminates_tls() {
    let Some(authority) = Authority::new("own") else {
        return;
    };
    let (fake, state) = (FakeGemini::start(), TempDir::new("state"));
    let (server, token) = guarded(&fake, state.path());
    let port = proxy(authority.config("localhost", VALID), server.port());
    for url in [format!("https://localhost:{port}"), format!("wss://localhost:{port}/ws")] {
        let run = |args: &[&str]| client(&authority, &token, &[args, &["--url", &url]].concat());
        // Longer than the buffers of TLS, both ways.
        let long: String = (0..20_000).map(|number| format!("{number} ")).collect();
        run(&["send", "--new", "--wait", "TEXT Hello."]).expect(0, "Hello.\n", "");
        let sent = run(&["send", "--new", "--wait", &format!("TEXT {long}")]);
        assert!(sent.status == Some(0) && sent.out.len() > 100_000, "{:?} {}", sent.status, sent.err);
        let listed = run(&["tasks", "--json"]);
        assert!(listed.status == Some(0) && listed.out.contains("Hello."), "{}", listed.err);
        let attached = run(&["attach"]);
        assert!(attached.status == Some(2) && attached.err.contains("in a terminal"), "{}", attached.err);
    }
    let url = format!("https://localhost:{port}");
    let refused = client(&authority, "wrong", &["tasks", "--url", &url]);
    assert!(refused.status == Some(8) && refused.err.contains("--token-file"), "{}", refused.err);
}

#[test]
fn untrusted_servers_are_refused_each_with_its_own_error() {
    let Some(authority) = Authority::new("own") else {
        return;
    };
    let state = TempDir::new("state");
    let server = Setup::without_model().state_dir(state.path()).start();
    let with = |authority: &Authority, host, dates| proxy(authority.config(host, dates), server.port());
    let other = Authority::new("other").expect("openssl");
    let closing = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closing_port = closing.local_addr().expect("an address").port();
    // It reads what it is sent before it closes: otherwise the client may be told that the connection was reset.
    thread::spawn(move || closing.incoming().flatten().for_each(|mut stream| drop(stream.read(&mut [0; 16_384]))));
    let plain = TcpListener::bind("127.0.0.1:0").expect("a port");
    let plain_port = plain.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in plain.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 2_048]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for (port, words) in [
        (with(&authority, "other.example", VALID), "its certificate is for another host name"),
        (with(&authority, "localhost", EXPIRED), "its certificate has expired"),
        (with(&other, "localhost", VALID), "unknown authority; if you trust it, set SSL_CERT_FILE"),
        (plain_port, "it does not speak TLS; if it speaks plain HTTP, write http://"),
        (closing_port, "instead of agreeing on TLS"),
    ] {
        let ended = client(&authority, "planted", &["tasks", "--url", &format!("https://localhost:{port}")]);
        assert!(ended.status == Some(3) && ended.err.contains(words), "{words}: {:?} {}", ended.status, ended.err);
        assert!(ended.err.lines().count() == 1 && !ended.err.contains("planted"), "{}", ended.err);
    }
    // Our own server without TLS.
    let ended = client(&authority, "planted", &["tasks", "--url", &format!("https://localhost:{}", server.port())]);
    assert!(ended.status == Some(3) && ended.err.contains("TLS"), "{:?} {}", ended.status, ended.err);
    let none = client(&authority, "planted", &["tasks", "--url", "https://localhost:1"]);
    assert!(none.status == Some(3) && none.err.contains("Connection refused"), "{}", none.err);
}

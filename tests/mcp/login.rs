//! Logins to servers. `http_server.py` is also the authorization server.

use crate::drive::task_in;
use crate::network::HttpServer;
use crate::support::client::Event;
use crate::support::message::{prompt, prompt_in};
use crate::{Mcp, ended, found_in_files};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

/// A server under test, with an MCP server that requires a login.
struct Login {
    mcp: Mcp,
    server: HttpServer,
}

const CALL: &str = "CALL mcp_x_echo {\"text\": \"hello\"} ;; TEXT done";

impl Login {
    fn new(words: &str, oauth: Value) -> Option<Login> {
        let mcp = Mcp::new(json!({}))?;
        let server = HttpServer::start(words);
        let settings = json!({"url": server.url("/mcp"), "type": "http", "trust": true, "oauth": oauth});
        mcp.set_user(&json!({"mcpServers": { "x": settings }}));
        Some(Login { mcp, server })
    }

    fn verb(&self, args: &[&str]) -> Command {
        crate::verbs::program(&self.mcp, args)
    }

    fn run(&self, args: &[&str]) -> Output {
        self.verb(args).output().expect("the program")
    }

    /// Begins a login. Returns the process, and the URL to open.
    fn begin(&self) -> (Child, Option<String>) {
        let mut child = self
            .verb(&["mcp", "login", "x"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
        let url = lines.map_while(Result::ok).find(|line| line.starts_with("http://"));
        (child, url)
    }

    /// Logs in as a user does: opens the URL and follows the browser's way back.
    fn log_in(&self) -> Output {
        let (child, url) = self.begin();
        let url = url.expect("a URL to open");
        assert!(url.contains("code_challenge_method=S256") && url.contains("scope=tools"), "{url}");
        let back = visit(&url).1.expect("a redirection");
        assert_eq!(visit(&back).0, 200);
        child.wait_with_output().expect("it ends")
    }

    fn call(&self) -> Value {
        let events = self.mcp.fixture.say(CALL);
        ended(&events).unwrap_or_else(|| panic!("no call ended; {}", self.mcp.fixture.server.output()))["response"]
            .clone()
    }

    fn count(&self, grant: &str) -> usize {
        self.server.heard().iter().filter(|request| request["grant"] == grant).count()
    }

    fn seen(&self) -> (String, String) {
        let task = task_in(&self.mcp.fixture.say("TEXT hello"));
        let server = self.mcp.metadata(&task)["mcpServers"][0].clone();
        let text = |name: &str| server[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("error"))
    }
}

/// Sends a GET request. Returns the status and the target of a redirection.
fn visit(url: &str) -> (u16, Option<String>) {
    let (authority, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
    let mut stream = TcpStream::connect(authority).expect("it listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, text.lines().find_map(|line| line.strip_prefix("Location: ")).map(|place| place.trim().to_owned()))
}

const NEEDED: &str = "needs login: gemini-a2a mcp login x";

#[test]
fn a_login_reaches_running_sessions_and_is_refreshed() {
    let Some(mut login) = Login::new("oauth", json!({})) else { return };
    let (status, error) = login.seen();
    assert_eq!((status.as_str(), error.as_str()), ("disconnected", NEEDED));
    let output = login.log_in();
    assert!(output.status.success(), "{output:?}");
    let file = login.mcp.fixture.server.state_dir().join("mcp-tokens.json");
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(login.call()["resultDisplay"], "echo: hello", "the running server uses it");

    // The access token is revoked. It is refreshed once although several calls notice that, and all calls succeed.
    visit(&login.server.url("/revoke"));
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(|| login.call()["resultDisplay"].clone())).collect();
        for call in calls {
            assert_eq!(call.join().expect("no panic"), "echo: hello");
        }
    });
    assert_eq!(login.count("refresh_token"), 1);

    // A token that the server repeats is removed from the text.
    for how in ["error", "result"] {
        let script = format!("CALL mcp_x_leak {} ;; TEXT done", json!({ "text": how }));
        let response = ended(&login.mcp.fixture.say(&script)).expect("it ends")["response"].clone();
        assert!(response.to_string().contains("[redacted]"), "{response}");
    }

    // The login is revoked: the error says what to do, and the refresh token is not tried again.
    visit(&login.server.url("/revoke-all"));
    let response = login.call();
    assert!(response["error"]["message"].as_str().is_some_and(|why| why.contains("mcp login x")), "{response}");
    assert_eq!(login.seen().1, NEEDED);
    assert_eq!(login.count("refresh_token"), 2);
    assert_eq!(login.seen().1, NEEDED);
    assert_eq!(login.count("refresh_token"), 2);
    assert!(!std::fs::read_to_string(&file).expect("a file").contains("refresh-token"));

    assert!(login.log_in().status.success());
    assert_eq!(login.call()["resultDisplay"], "echo: hello");
    assert!(login.run(&["mcp", "logout", "x"]).status.success());
    let said = String::from_utf8(login.run(&["mcp", "logout", "x"]).stdout).expect("text");
    assert!(said.contains("no login"), "{said}");
    for secret in ["access-token-", "refresh-token-"] {
        assert!(!login.mcp.fixture.server.output().contains(secret));
        login.mcp.fixture.server.kill9();
        assert_eq!(found_in_files(&login.mcp.fixture.server.state_dir(), secret), Vec::<String>::new());
    }
}

/// Two programs use one login: each of them sees what the other one has refreshed.
#[test]
fn programs_share_a_login() {
    let Some(login) = Login::new("oauth", json!({})) else { return };
    assert!(login.log_in().status.success());
    assert_eq!(login.call()["resultDisplay"], "echo: hello");
    visit(&login.server.url("/revoke"));
    let tested = login.run(&["mcp", "test", "x"]);
    assert!(tested.status.success(), "{tested:?}");
    assert_eq!(login.count("refresh_token"), 1);
    assert_eq!(login.call()["resultDisplay"], "echo: hello");
    assert_eq!(login.count("refresh_token"), 1, "the other program's token is used");
}

#[test]
fn a_login_that_cannot_be_trusted_is_refused() {
    for (words, oauth, reason) in [
        ("oauth,plain", json!({}), "S256"),
        ("oauth,elsewhere", json!({}), "127.0.0.2"),
        ("oauth,unregistered", json!({}), "oauth.clientId"),
        ("oauth", json!({"redirectUri": "https://example.org/back"}), "redirectUri"),
    ] {
        let Some(login) = Login::new(words, oauth) else { return };
        let output = login.run(&["mcp", "login", "x"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(reason), "{words}: {output:?}");
    }
    let Some(login) = Login::new("oauth,forged", json!({"clientId": "mine"})) else { return };
    let (mut child, url) = login.begin();
    let back = visit(&url.expect("a URL")).1.expect("a redirection");
    visit(&back);
    let status = child.wait().expect("it ends");
    let mut said = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("text");
    assert!(!status.success() && said.contains("does not belong to this login"), "{said}");
    assert_eq!(login.count("authorization_code"), 0);
    assert!(login.server.heard().iter().all(|request| request.get("registered").is_none()), "the settings have an id");
}

/// If the settings have credentials, no login is used.
#[test]
fn a_header_of_the_settings_is_final() {
    let Some(login) = Login::new("oauth", json!({})) else { return };
    assert!(login.log_in().status.success());
    let headers = json!({"Authorization": "Bearer wrong-token"});
    let server = json!({"url": login.server.url("/mcp"), "type": "http", "headers": headers});
    login.mcp.set_user(&json!({"mcpServers": { "x": server }}));
    let (_, error) = login.seen();
    assert!(error.contains("check headers"), "{error}");
    let output = login.run(&["mcp", "login", "x"]);
    assert!(!output.status.success());
    let events: Vec<Event> = login.mcp.fixture.client().stream("message/stream", prompt("TEXT hello")).collect();
    let task = task_in(&events);
    login.mcp.fixture.client().call("message/send", prompt_in(&task, "TEXT again"));
    assert_eq!(login.count("refresh_token"), 0);
}

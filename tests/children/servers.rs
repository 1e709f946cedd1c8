//! Programs with three pipes, such as MCP servers: what they read, write and get, and how they end.

use super::*;
use gemini_a2a::tool::{Child, Io, Launch, Pipes};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

/// A running server and our ends of its pipes.
struct Started {
    child: Box<dyn Child>,
    input: File,
    output: BufReader<File>,
    errors: File,
}

fn start(fixture: &Fixture, script: &str, env: &[(&str, &str)]) -> Started {
    let env = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let argv = vec!["bash".into(), "-c".into(), script.into()];
    let launch = Launch::command(argv, File::open(&fixture.dir).expect("it is there").into());
    let mut child = fixture.children.spawn(Launch { io: Io::Piped, env, ..launch }).expect("it starts");
    let Pipes { input, errors } = child.take_pipes().expect("it has pipes");
    let output = BufReader::new(child.output().try_clone_to_owned().expect("a descriptor").into());
    assert!(child.take_pipes().is_none());
    Started { child, input: input.into(), output, errors: errors.into() }
}

#[test]
fn a_server_reads_one_pipe_and_writes_two() {
    let fixture = Fixture::new();
    let mut server = start(&fixture, "echo ready >&2; while read line; do echo \"got $line\"; done; echo bye >&2", &[]);
    for word in ["one", "two"] {
        writeln!(server.input, "{word}").expect("it reads");
        let mut line = String::new();
        server.output.read_line(&mut line).expect("it answers");
        assert_eq!(line, format!("got {word}\n"));
    }
    drop(server.input);
    let mut errors = String::new();
    server.errors.read_to_string(&mut errors).expect("it ends");
    assert_eq!(errors, "ready\nbye\n");
    let finished = server.child.finish().expect("it is gone");
    assert_eq!((finished.status.code(), finished.strays), (Some(0), vec![]));
}

#[test]
fn a_server_gets_its_own_variables_and_none_of_a_command() {
    let path = std::env::var_os("PATH").expect("a PATH");
    let fixture = Fixture::with(vec![("PATH".into(), path), ("GEMINI_API_KEY".into(), "s3cret".into())]);
    let mut server = start(&fixture, "env", &[("MY_TOKEN", "given"), ("TERM", "mine")]);
    let mut text = String::new();
    server.output.read_to_string(&mut text).expect("it ends");
    let has = |line: &str| text.lines().any(|one| one == line);
    assert!(has("MY_TOKEN=given") && has("TERM=mine") && has("GEMINI_CLI=1"), "{text}");
    assert!(text.lines().any(|line| line.starts_with(MARKER)), "{text}");
    assert!(!text.contains("s3cret") && !text.contains("GIT_CONFIG"), "{text}");
}

/// A server that ignores the end of its input and SIGTERM is killed with all processes that it started.
#[test]
fn nothing_of_a_server_is_left_when_it_is_ended() {
    let fixture = Fixture::new();
    let script = "trap '' TERM; (trap '' TERM; setsid sleep 1000 & echo $! > below; wait) & echo $$ > own; \
                  while true; do sleep 1; done";
    let server = start(&fixture, script, &[]);
    wait_until("both have started", || ["own", "below"].iter().all(|file| pid_in(&fixture.dir.join(file)).is_some()));
    let pids = [fixture.pid("own"), fixture.pid("below")];
    drop(server.input);
    server.child.terminate();
    assert!(pids.iter().all(|pid| runs(*pid)), "the processes ignore SIGTERM");
    server.child.finish().expect("it is gone");
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

#[test]
fn a_missing_server_is_an_error() {
    let fixture = Fixture::new();
    let dir = || File::open(&fixture.dir).expect("it is there").into();
    let launch = Launch { io: Io::Piped, ..Launch::command(vec!["no-such-server".into()], dir()) };
    match fixture.children.spawn(launch) {
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        // This process has inherited descriptors, so a shell closes them before it starts the program.
        Ok(mut child) => {
            let Pipes { errors, .. } = child.take_pipes().expect("it has pipes");
            let mut text = String::new();
            File::from(errors).read_to_string(&mut text).expect("it ends");
            assert!(text.contains("no-such-server"), "{text}");
            assert_eq!(child.finish().expect("it is gone").status.code(), Some(127));
        }
    }
}

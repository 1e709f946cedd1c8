//! The files of `scripts/deploy`: they fit the program, the images and the platforms.

use crate::support::{TempDir, has};
use crate::{Program, serve};
use gemini_a2a::args;
use gemini_a2a::config::formats::yaml;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/deploy").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(deploy(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The documents of a manifest.
fn manifest(name: &str) -> Vec<Value> {
    let documents = text(name);
    let parse = |text: &str| {
        let (tree, notices) = yaml::parse(text);
        assert_eq!(notices, [], "{name}");
        tree.json()
    };
    documents.split("\n---\n").map(parse).collect()
}

/// Fails unless the manifest has these values at these places.
fn expect(document: &Value, fields: &[(&str, Value)]) {
    for (pointer, value) in fields {
        assert_eq!(document.pointer(pointer), Some(value), "{pointer}");
    }
}

/// The arguments in the entry point of the images.
fn entry_point() -> Vec<String> {
    let file = text("Dockerfile");
    let lines = file.lines().filter_map(|line| line.strip_prefix("ENTRYPOINT "));
    let points: Vec<Vec<String>> = lines.map(|words| serde_json::from_str(words).expect("a list")).collect();
    assert_eq!(points.len(), 2);
    assert_eq!(points[0], points[1], "both images start in the same way");
    points[0].clone()
}

fn is_accepted(words: &[String]) {
    assert!(args::parse(words.to_vec()).is_ok(), "{words:?}: {:?}", args::parse(words.to_vec()).err());
}

/// The arguments of the image's entry point and of the container.
fn arguments(container: &Value) -> Vec<String> {
    let given = container["args"].as_array().expect("arguments").iter();
    let words = given.map(|word| word.as_str().expect("a word").to_owned());
    entry_point()[1..].iter().cloned().chain(words).collect()
}

#[test]
fn both_images_run_as_their_user_with_their_entry_point() {
    let file = text("Dockerfile");
    let stages: Vec<&str> = file.split("\nFROM ").skip(1).collect();
    assert!(stages[0].starts_with("scratch AS headless\n") && stages[1].starts_with("${BASE} AS tools\n"));
    for stage in stages {
        for line in [
            "COPY gemini-a2a /gemini-a2a",
            "COPY --chown=65532:65532 volumes/ /",
            "ENV A2A_LISTEN=0.0.0.0:8080",
            "USER 65532:65532",
        ] {
            assert!(stage.lines().any(|found| found == line), "{line}");
        }
    }
    let words = entry_point();
    let expected = "/gemini-a2a serve --access token --state-dir /state/a2a --workspace /workspace";
    assert_eq!(words.join(" "), expected);
    is_accepted(&words[1..]);
}

#[test]
fn the_cloud_run_service_keeps_its_cpu_and_its_clients() {
    let [service] = &manifest("cloud-run.yaml")[..] else { panic!("one document") };
    let annotations = json!({
        "run.googleapis.com/sessionAffinity": "true",
        "run.googleapis.com/cpu-throttling": "false",
        "run.googleapis.com/execution-environment": "gen2",
        "autoscaling.knative.dev/minScale": "1",
    });
    let container = "/spec/template/spec/containers/0";
    expect(
        service,
        &[
            ("/apiVersion", json!("serving.knative.dev/v1")),
            ("/kind", json!("Service")),
            ("/spec/template/metadata/annotations", annotations),
            ("/spec/template/spec/containerConcurrency", json!(500)),
            ("/spec/template/spec/timeoutSeconds", json!(3600)),
        ],
    );
    let container = service.pointer(container).expect("a container");
    expect(
        container,
        &[
            ("/args", json!(["--drain", "8s", "--public-url", "https://agent.example"])),
            ("/startupProbe/httpGet/path", json!("/ready")),
            ("/livenessProbe/httpGet/path", json!("/live")),
            ("/env/0/name", json!("A2A_GCS_BUCKET")),
            ("/env/1", json!({ "name": "A2A_CREDENTIALS_FILE", "value": "/credentials/credentials.json" })),
            ("/volumeMounts/0", json!({ "name": "credentials", "mountPath": "/credentials" })),
        ],
    );
    is_accepted(&arguments(container));
}

#[test]
fn the_deployment_runs_read_only_and_ends_within_its_grace() {
    let [deployment, service] = &manifest("kubernetes.yaml")[..] else { panic!("two documents") };
    expect(
        deployment,
        &[
            ("/kind", json!("Deployment")),
            ("/spec/replicas", json!(2)),
            ("/spec/template/spec/terminationGracePeriodSeconds", json!(15)),
            ("/spec/template/spec/securityContext/runAsNonRoot", json!(true)),
            ("/spec/template/spec/securityContext/runAsUser", json!(65532)),
            ("/spec/template/spec/volumes/0/name", json!("state")),
            ("/spec/template/spec/volumes/0/emptyDir/sizeLimit", json!("10Gi")),
            ("/spec/template/spec/volumes/2/secret/secretName", json!("gemini-a2a")),
        ],
    );
    let container = deployment.pointer("/spec/template/spec/containers/0").expect("a container");
    expect(
        container,
        &[
            ("/args", json!(["--drain", "10s", "--drain-delay", "3s"])),
            ("/securityContext/readOnlyRootFilesystem", json!(true)),
            ("/securityContext/allowPrivilegeEscalation", json!(false)),
            ("/startupProbe/httpGet/path", json!("/ready")),
            ("/readinessProbe/httpGet/path", json!("/ready")),
            ("/livenessProbe/httpGet/path", json!("/live")),
            ("/volumeMounts/0/mountPath", json!("/state")),
            ("/volumeMounts/1/mountPath", json!("/workspace")),
            ("/env/1", json!({ "name": "A2A_CREDENTIALS_FILE", "value": "/credentials/credentials.json" })),
        ],
    );
    is_accepted(&arguments(container));
    expect(service, &[("/kind", json!("Service")), ("/spec/sessionAffinity", json!("ClientIP"))]);
    let labels = deployment.pointer("/spec/template/metadata/labels");
    assert_eq!(labels, service.pointer("/spec/selector"));
    assert_eq!(labels, deployment.pointer("/spec/selector/matchLabels"));
}

#[test]
fn the_units_pass_the_socket_and_wait_for_the_server() {
    let service = text("gemini-a2a.service");
    for line in [
        "Type=notify",
        "StandardInput=socket",
        "StandardOutput=journal",
        "StandardError=journal",
        "DynamicUser=yes",
        "StateDirectory=gemini-a2a gemini-a2a-work",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "KillMode=mixed",
        "TimeoutStopSec=15",
    ] {
        assert!(service.lines().any(|found| found == line), "{line}");
    }
    let start = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let words: Vec<String> = start.split(' ').skip(1).map(str::to_owned).collect();
    is_accepted(&words);
    assert!(start.contains("serve --listen fd ") && start.ends_with("--workspace %S/gemini-a2a-work"), "{start}");
    assert!(text("gemini-a2a.socket").contains("ListenStream=127.0.0.1:41242\n"));
}

#[test]
fn systemd_accepts_the_units() {
    if !has("systemd-analyze") {
        return;
    }
    let dir = TempDir::new("units");
    let service = text("gemini-a2a.service").replace("/usr/local/bin/gemini-a2a", env!("CARGO_BIN_EXE_gemini-a2a"));
    fs::write(dir.path().join("gemini-a2a.service"), service).expect("the folder is ours");
    fs::copy(deploy("gemini-a2a.socket"), dir.path().join("gemini-a2a.socket")).expect("the folder is ours");
    let units = ["gemini-a2a.socket", "gemini-a2a.service"].map(|unit| dir.path().join(unit));
    let verified = Command::new("systemd-analyze").arg("verify").args(units).output().expect("it starts");
    let messages = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !messages.contains("gemini-a2a"), "{messages}");
}

#[test]
fn the_credential_of_the_unit_is_accepted() {
    // systemd passes credentials in files that root owns, in a directory that this variable names.
    let dir = TempDir::new("credentials");
    let file = dir.path().join("credentials.json");
    let mut add = Command::new(env!("CARGO_BIN_EXE_gemini-a2a"));
    let add = add.args(["token", "add", "ann", "--rights", "view", "--credentials"]).arg(&file);
    let added = add.env_clear().env("HOME", dir.path()).output().expect("it starts");
    assert!(added.status.success());
    let mut command = serve(&dir);
    command.args(["--a2a-port", "0", "--access", "token"]).env("CREDENTIALS_DIRECTORY", dir.path());
    let program = Program::start(command.env("A2A_CREDENTIALS_FILE", &file).stdin(Stdio::null()));
    program.wait_for_log("Its listeners: ");
}

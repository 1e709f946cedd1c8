use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).expect(text)
}

fn login(resource: &str) -> Login {
    Login {
        issuer: "https://as.example".into(),
        resource: resource.into(),
        token_endpoint: "https://as.example/token".into(),
        client_id: "c d".into(),
        client_secret: None,
        access: Secret::new("a"),
        refresh: Some(Secret::new("r&")),
        expires_at: Some(100_000),
        scopes: "s".into(),
    }
}

#[test]
fn a_login_is_for_a_url_and_those_below_it() {
    let logins = ["https://h.example/mcp", "https://h.example", "https://other.example/mcp"].map(login);
    for (text, found) in [
        ("https://h.example/mcp", Some("https://h.example/mcp")),
        ("https://H.example/mcp/x?q=1", Some("https://h.example/mcp")),
        ("https://h.example/mcpx", Some("https://h.example")),
        ("http://h.example/mcp", None),
        ("https://h.example:8443/mcp", None),
        ("https://else.example/mcp", None),
    ] {
        assert_eq!(find(&logins, &url(text), None).map(|login| login.resource.as_str()), found, "{text}");
    }
    assert!(find(&logins, &url("https://h.example/"), Some("https://as.example/")).is_some());
    assert!(find(&logins, &url("https://h.example/"), Some("https://more.example")).is_none());
}

#[test]
fn tokens_are_refreshed_and_their_answer_is_kept() {
    let old = login("https://h.example/mcp");
    assert_eq!(
        old.refresh_form().as_deref(),
        Some("grant_type=refresh_token&refresh_token=r%26&client_id=c%20d&resource=https%3A%2F%2Fh.example%2Fmcp")
    );
    assert!(old.expires_within(40_000, 60_000) && !old.expires_within(39_999, 60_000));
    let answer = |status, body: Value| read_tokens(status, body.to_string().as_bytes());
    let tokens = answer(200, json!({"access_token": "b", "expires_in": 60})).expect("tokens");
    let new = old.clone().with_tokens(tokens, 1_000);
    assert_eq!((new.access.reveal(), new.expires_at, &new.refresh), ("b", Some(61_000), &old.refresh));
    assert!(!new.expires_within(0, 60_000) && new.expires_within(1_000, 60_000));
    let tokens = answer(200, json!({"access_token": "b", "refresh_token": "q", "scope": "t"})).expect("tokens");
    let new = old.with_tokens(tokens, 1_000);
    assert_eq!((new.refresh, new.expires_at, new.scopes.as_str()), (Some(Secret::new("q")), None, "t"));
    assert_eq!(answer(400, json!({"error": "invalid_grant"})), Err(TokenError::InvalidGrant));
    for (status, body) in
        [(500, json!({})), (200, json!({})), (400, json!({"error": "invalid_client"})), (302, json!([]))]
    {
        assert!(matches!(answer(status, body), Err(TokenError::Failed(_))));
    }
}

#[test]
fn challenges() {
    let of = |text: &str| {
        let Challenge { resource_metadata, scope } = challenge(text);
        (resource_metadata.unwrap_or_default(), scope.unwrap_or_default())
    };
    assert_eq!(of("Bearer"), Default::default());
    assert_eq!(
        of(r#"Bearer error="invalid_token", resource_metadata="https://h/x", scope="a b""#),
        ("https://h/x".into(), "a b".into())
    );
    assert_eq!(of("Bearer scope=a, resource_metadata=https://h/x"), ("https://h/x".into(), "a".into()));
    assert_eq!(of(r#"Bearer x_scope="b""#).1, "");
}

#[test]
fn the_urls_of_metadata_and_its_required_members() {
    let server = url("https://h.example/a/mcp?x=1");
    let from = Challenge { resource_metadata: Some("https://h.example/own".into()), scope: None };
    assert_eq!(
        resource_metadata_urls(&server, &from),
        [
            "https://h.example/own",
            "https://h.example/.well-known/oauth-protected-resource/a/mcp",
            "https://h.example/.well-known/oauth-protected-resource"
        ]
    );
    assert_eq!(issuer_metadata_urls(&url("https://as.example")).len(), 2);
    assert_eq!(
        issuer_metadata_urls(&url("https://as.example/t/"))[2],
        "https://as.example/t/.well-known/openid-configuration"
    );
    let resource = |resource: &str| {
        read_resource(&json!({"resource": resource, "authorization_servers": ["https://as.example"]}), &server)
    };
    for (text, is_right) in [
        ("https://h.example/a/mcp", true),
        ("https://h.example/a", true),
        ("https://h.example", true),
        ("https://h.example/b", false),
        ("https://else.example/a/mcp", false),
        ("x", false),
    ] {
        assert_eq!(resource(text).is_ok(), is_right, "{text}");
    }
    assert!(read_resource(&json!({"resource": "https://h.example"}), &server).is_err());
    let whole = json!({"issuer": "https://as.example", "authorization_endpoint": "https://as.example/a",
        "token_endpoint": "https://as.example/t", "code_challenge_methods_supported": ["S256"]});
    assert!(read_issuer(&whole, "https://as.example/").is_ok());
    for (name, value) in [
        ("issuer", json!("https://else.example")),
        ("token_endpoint", json!(null)),
        ("code_challenge_methods_supported", json!(["plain"])),
        ("code_challenge_methods_supported", json!(null)),
    ] {
        let mut wrong = whole.clone();
        wrong[name] = value;
        assert!(read_issuer(&wrong, "https://as.example").is_err(), "{name}");
    }
}

#[test]
fn the_answer_must_belong_to_the_login() {
    let issuer = Issuer {
        issuer: "https://as.example".into(),
        authorization_endpoint: "https://as.example/a?x=1".into(),
        ..Issuer::default()
    };
    let attempt = LoginAttempt {
        issuer: &issuer,
        resource: "https://h.example/mcp",
        client_id: "c",
        client_secret: Some(&Secret::new("s")),
        redirect: "http://127.0.0.1:1/oauth/callback",
        scope: "a b",
        audience: "",
        state: "state",
        verifier: "v",
        challenge: "ch",
    };
    assert_eq!(
        attempt.url(),
        "https://as.example/a?x=1&response_type=code&client_id=c&redirect_uri=http%3A%2F%2F127.0.0.1%3A1%2Foauth%2Fcallback\
         &state=state&code_challenge=ch&code_challenge_method=S256&resource=https%3A%2F%2Fh.example%2Fmcp&scope=a%20b"
    );
    let code = |query: &str| attempt.code(&format!("/oauth/callback?{query}")).map(|code| code.reveal().to_owned());
    assert_eq!(code("code=x%20y&state=state"), Ok("x y".into()));
    assert_eq!(code("code=x&state=state&iss=https%3A%2F%2Fas.example"), Ok("x".into()));
    for wrong in
        ["code=x", "code=x&state=stat", "code=x&state=statf", "state=state", "code=x&state=state&iss=https://else"]
    {
        assert!(code(wrong).is_err(), "{wrong}");
    }
    assert!(code("error=access_denied&error_description=no+way&state=state").unwrap_err().contains("no way"));
    assert!(attempt.token_form(&Secret::new("x")).contains("code_verifier=v&resource="));
    assert!(attempt.token_form(&Secret::new("x")).ends_with("client_secret=s"));
}

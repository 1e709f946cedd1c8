use super::*;
use std::io::{ErrorKind, Write};
use std::net::TcpListener;

/// Nothing is sent anywhere.
#[test]
fn a_server_that_a_client_named_has_only_addresses_that_it_may_have() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it can be asked");
    let here = format!("http://{}/", listener.local_addr().expect("bound"));
    let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).build();
    for (addresses, url, why) in [
        (AllowedAddresses::Loopback, "http://10.0.0.1/", "10.0.0.1 is not on this machine"),
        (AllowedAddresses::Public, "http://10.0.0.1/", "10.0.0.1 is not on the public internet"),
        (AllowedAddresses::Public, &here, "127.0.0.1 is not on the public internet"),
    ] {
        let error = agent(&config, addresses).get(url).call().expect_err("it is refused").to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn inputs_before_the_end_of_a_connection_are_delivered() {
    let input = |text: &str| Received::Input(Input::Junk(text.into()));
    let ends = [Received::Ended("e".into()), Received::Broken("b".into()), Received::TrySse, Received::NeedsLogin];
    for end in ends {
        let (inputs, end) = in_order(vec![input("one"), input("two"), end, input("late")]);
        assert_eq!(inputs.len(), 2);
        assert!(end.is_some_and(|end| !matches!(end, Flow::Inputs(_))));
    }
    assert!(matches!(in_order(vec![input("one")]), (inputs, None) if inputs.len() == 1));
}

#[test]
fn only_temporary_errors_are_tried_again() {
    let tell = |error: ureq::Error| {
        let url = Url::parse("http://h/").expect("a URL");
        matches!(RequestError::of(&error, &url), RequestError::Unreachable(_))
    };
    let io = |kind: ErrorKind| ureq::Error::Io(kind.into());
    for (error, is_temporary) in [
        (io(ErrorKind::ConnectionRefused), true),
        (io(ErrorKind::HostUnreachable), true),
        (io(ErrorKind::UnexpectedEof), true),
        (ureq::Error::HostNotFound, true),
        (ureq::Error::ConnectionFailed, true),
        (ureq::Error::Timeout(ureq::Timeout::Connect), true),
        (io(ErrorKind::PermissionDenied), false),
        (io(ErrorKind::InvalidData), false),
        (ureq::Error::BadUri("x".into()), false),
        (ureq::Error::Tls("x"), false),
        (ureq::Error::LargeResponseHeader(2, 1), false),
    ] {
        let text = error.to_string();
        assert_eq!(tell(error), is_temporary, "{text}");
    }
    let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).build();
    let public = agent(&config, AllowedAddresses::Public);
    assert!(!tell(public.get("http://10.0.0.1/").call().expect_err("its address is refused")));
    assert!(!tell(public.get("http://10.0.0.1/").header("x", "a\nb").call().expect_err("its header is invalid")));
}

/// A server whose certificate cannot be checked is not tried again: the error comes as one of input and output.
#[test]
fn a_server_without_tls_is_not_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("https://{}/", listener.local_addr().expect("bound"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").expect("it is written");
        let _ = stream.read(&mut [0; 4096]);
    });
    let config = Agent::config_builder().timeout_global(Some(Duration::from_secs(10))).build();
    let error = agent(&config, AllowedAddresses::Any).get(&url).call().expect_err("it speaks no TLS");
    let error = RequestError::of(&error, &Url::parse(&url).expect("a URL"));
    assert!(matches!(error, RequestError::Other(_)), "{}", error.text());
    server.join().expect("it ends");
}

//! A receiver of webhooks: a listener on loopback that records every request and answers 200, at once or after some failures.

use crate::support::eventually;
use crate::support::http::{Head, Message, Side};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<Delivery>>>,
}

#[derive(Clone, Debug)]
pub struct Delivery {
    pub head: Head,
    pub body: Value,
}

impl Receiver {
    pub fn open() -> Receiver {
        Receiver::failing(0)
    }

    /// A receiver that answers the first `times` deliveries with an error.
    pub fn failing(times: usize) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("a bound port").port();
        let received = Arc::new(Mutex::new(vec![]));
        let deliveries = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let deliveries = deliveries.clone();
                std::thread::spawn(move || serve(stream, &deliveries, times));
            }
        });
        Receiver { port, received }
    }

    pub fn url(&self) -> String {
        format!("http://localhost:{}/webhook", self.port)
    }

    /// Waits for a delivery that fits.
    pub fn wait(&self, what: &str, fits: impl Fn(&Delivery) -> bool) -> Delivery {
        eventually(what, || self.all().into_iter().find(&fits))
    }

    pub fn all(&self) -> Vec<Delivery> {
        self.received.lock().expect("receivers do not panic").clone()
    }
}

fn serve(mut stream: TcpStream, deliveries: &Mutex<Vec<Delivery>>, failures: usize) {
    let mut message = Message::new(Side::Request);
    let mut body = vec![];
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        if message.feed(&bytes[..count], &mut body).is_err() {
            return;
        }
        if !message.is_done() {
            continue;
        }
        let head = message.head().cloned().unwrap_or_default();
        let text = std::mem::take(&mut body);
        let body_json = serde_json::from_slice(&text).unwrap_or(Value::Null);
        let delivery = Delivery { head, body: body_json };
        let mut deliveries = deliveries.lock().expect("receivers do not panic");
        deliveries.push(delivery);
        let status = match deliveries.len() > failures {
            true => "200 OK",
            false => "503 Service Unavailable",
        };
        drop(deliveries);
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let answered = stream.write_all(answer.as_bytes());
        if answered.is_err() || message.restart(Side::Request, &mut body).is_err() {
            return;
        }
    }
}

//! An answer that another node takes up: what was given to other agents goes on there, so that nothing here may end it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use control::admin::KeyBounds;
use control::dispatch::DispatchLimits;
use control::environment::Entropy;
use control::questions::{Asking, Taken};
use control::{Environment, PluginsConfig, Service, ServiceConfig};
use domain::catalog::builtin_jurisdictions;
use domain::credits::Credits;
use domain::id::MessageId;
use domain::machine::Rules;
use domain::time::{Clock, Timestamp};
use domain::turn::{AgentFrame, HostFrame};
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use machine::Driver;
use machine::simulated::{Connection, Simulated};
use models::{VendorConfig, VendorsConfig};
use protocol::turn::{agent_line, read_host_line};
use store::Store;
use tokio::sync::mpsc;
use workspace::Quota;

/// Beyond this something hangs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Leases are renewed more often.
const A_WHILE_MICROS: i64 = 20_000_000;

#[derive(Default)]
struct Moved(AtomicI64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Default)]
struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes.chunks_mut(8) {
            let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            byte.copy_from_slice(&count.to_be_bytes()[..byte.len()]);
        }
    }
}

/// What an agent was told in each of its turns, in their order.
type Turns = Arc<Mutex<Vec<Told>>>;

#[derive(Debug, Clone)]
struct Told {
    answer: Option<MessageId>,
    closed: bool,
    over: bool,
}

/// An agent that asks for the first step of each turn, and then only listens.
async fn agent(connection: Connection, turns: Turns) {
    let instance = connection.instance;
    let service = service_fn(move |request: Request<Incoming>| {
        let turns = turns.clone();
        async move {
            let body = if request.uri().path() == "/hello" {
                let hello = format!("{{\"version\":{},\"instance\":\"{instance}\"}}", protocol::VERSION);
                Full::new(Bytes::from(hello)).boxed_unsync()
            } else {
                let (says, said) = mpsc::channel::<Bytes>(8);
                tokio::spawn(listen(request.into_body(), says, turns));
                let lines = stream::unfold(said, async |mut said| {
                    let line = said.recv().await?;
                    Some((Ok::<_, std::convert::Infallible>(Frame::data(line)), said))
                });
                StreamBody::new(lines).boxed_unsync()
            };
            Ok::<_, std::convert::Infallible>(Response::new(body))
        }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The host hangs up.
    let _ = server.serve_connection(TokioIo::new(connection.stream), service).await;
}

async fn listen(mut body: Incoming, says: mpsc::Sender<Bytes>, turns: Turns) {
    let index = {
        let mut turns = turns.lock().expect("whole");
        turns.push(Told { answer: None, closed: false, over: false });
        turns.len() - 1
    };
    let mut buffer = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            match read_host_line(&line).expect("a line of the host") {
                HostFrame::Open(open) => {
                    turns.lock().expect("whole")[index].answer = Some(open.answer);
                    let keep = open.entries.iter().map(|entry| entry.id).collect();
                    let want = agent_line(&AgentFrame::Want { number: open.next, keep });
                    let _ = says.send(want.into()).await;
                }
                HostFrame::Close => turns.lock().expect("whole")[index].closed = true,
                HostFrame::Step { .. } | HostFrame::Acknowledged { .. } => {}
            }
        }
    }
    turns.lock().expect("whole")[index].over = true;
}

/// A model's server: the first answer gives a task to another agent, the second is never done.
fn vendor(asked: Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = asked.clone();
            // Who goes away is none of its business.
            std::thread::spawn(move || answer(stream, &asked));
        }
    });
    format!("http://{address}/v1")
}

fn answer(mut stream: TcpStream, asked: &AtomicU64) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    if first.contains("/models") {
        let body = "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\"}]}";
        return write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
    }
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    if asked.fetch_add(1, Ordering::SeqCst) == 0 {
        let task = "{\\\"agent\\\":\\\"causerie:lawyer\\\",\\\"task\\\":\\\"Look\\\"}";
        return write!(
            stream,
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":0,\"id\":\"c\",\"function\":\
             {{\"name\":\"agent\",\"arguments\":\"{task}\"}}}}]}},\"finish_reason\":\"tool_calls\"}}]}}\n\ndata: [DONE]\n\n"
        );
    }
    write!(stream, "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Half\"}}}}]}}\n\n")?;
    // Until the other side hangs up.
    std::io::copy(&mut reader, &mut std::io::sink()).map(|_| ())
}

/// Looks again and again, giving way to the rest, until there is what is wanted.
async fn until<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    });
    found.await.expect("it comes about in time")
}

#[tokio::test]
async fn an_answer_that_is_taken_over_leaves_its_other_agents_at_work() {
    let (turns, asked, clock) = (Turns::default(), Arc::new(AtomicU64::new(0)), Arc::new(Moved::default()));
    let data = tempfile::tempdir().expect("a temporary folder");
    let told = turns.clone();
    let openai = VendorConfig { base_url: Some(vendor(asked.clone())), ..VendorConfig::default() };
    let config = ServiceConfig {
        instructions: None,
        data: data.path().to_owned(),
        database: None,
        quota: Quota::default(),
        limits: DispatchLimits::default(),
        rules: Rules::default(),
        vendors: VendorsConfig { openai: Some(openai), ..VendorsConfig::default() },
        jurisdictions: builtin_jurisdictions(),
        driver: Driver::Simulated(Simulated::new(move |connection| agent(connection, told.clone()))),
        plugins: PluginsConfig::default(),
        web: web::WebConfig::default(),
    };
    let environment = Environment::new(clock.clone(), Arc::new(Counter::default()));
    let service = Service::start(config, environment).await.expect("a service");
    let until_day = Timestamp::from_micros(i64::MAX / 2);
    let (email, credits) = ("ada@example.test", Credits(100_000));
    service.admin.create_account(email, Some(until_day), credits, None, true).await.expect("an account");
    let key = service.admin.create_key(email, "test", KeyBounds::default()).await.expect("a key").key;
    let caller = service.access.resolve(key.reveal()).await.expect("a caller");
    let question = || Asking { input: "Why?".to_owned(), model: Some("m".to_owned()), ..Asking::default() };
    let taken = until(async || service.questions.ask(&caller, question()).await.ok()).await;
    let Taken::Accepted { live, .. } = taken else { unreachable!("it is asked once") };
    let answer = live.meta().answer;
    let two = || {
        let turns = turns.lock().expect("whole").clone();
        (turns.len() == 2 && turns.iter().all(|turn| turn.answer.is_some())).then_some(turns)
    };
    let begun = until(async || two().filter(|_| asked.load(Ordering::SeqCst) == 2)).await;
    assert!(begun[0].answer == Some(answer) && begun[1].answer != Some(answer), "{begun:?}");
    // Another node has it from now on.
    let store = Store::open(&data.path().join("causerie.db")).expect("the database");
    let other = "UPDATE dispatch SET node_id = '00000000-0000-4000-8000-000000000001'";
    store.write(move |tx| tx.execute(other, &[])).await.expect("another lease");
    clock.0.fetch_add(A_WHILE_MICROS, Ordering::Relaxed);
    let over = until(async || two().filter(|turns| turns.iter().all(|turn| turn.over))).await;
    assert!(
        over.iter().all(|turn| !turn.closed),
        "the agents' loops stay open for whoever goes on: {over:?}"
    );
    assert!(live.snapshot().ending.is_none(), "nor do its readers see an end");
    until(async || (service.turns() == 0).then_some(())).await;
    service.shutdown().await;
}

//! Requests mean here what they mean to hyper's server, or are refused.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use kvroute_wire::http1::{Part, RequestReader};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

/// A request, and its body if that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    head: String,
    headers: Vec<(String, Bytes)>,
    body: Option<Vec<u8>>,
}

impl Seen {
    fn of<B>(request: &Request<B>, body: Option<Vec<u8>>) -> Self {
        let head = format!("{} {} {:?}", request.method(), request.uri(), request.version());
        // Where a length is said several times hyper keeps the first.
        let is_first = |i: usize, name: &header::HeaderName| {
            name != header::CONTENT_LENGTH || request.headers().iter().position(|(known, _)| known == name) == Some(i)
        };
        let named = request.headers().iter().enumerate().filter(|(i, (name, _))| is_first(*i, name));
        let mut headers: Vec<_> =
            named.map(|(_, (name, value))| (name.to_string(), Bytes::copy_from_slice(value.as_bytes()))).collect();
        headers.sort();
        Self { head, headers, body }
    }
}

/// What this server makes of a connection on which these pieces come; true if it ends with something that is no request.
fn ours(pieces: &[Bytes]) -> (Vec<Seen>, Option<&'static str>) {
    let (mut reader, mut buffer, mut seen) = (RequestReader::new(8 << 10), BytesMut::new(), Vec::new());
    let mut pieces = pieces.iter();
    let mut under_way = None;
    loop {
        match &mut under_way {
            None => match reader.next(&mut buffer, &mut HeaderMap::new()) {
                Ok(Some(head)) => {
                    under_way = Some((head, Vec::new()));
                    continue;
                }
                Ok(None) => {}
                Err(bad) => return (seen, Some(bad.message)),
            },
            Some((head, body)) => match head.framing.next(&mut buffer) {
                Ok(Some(Part::Data(piece))) => {
                    body.extend_from_slice(&piece);
                    continue;
                }
                Ok(Some(Part::Trailers(_))) => continue,
                Ok(None) if head.framing.is_done() => {
                    seen.push(Seen::of(&head.request, Some(std::mem::take(body))));
                    if !head.keeps_alive {
                        return (seen, None);
                    }
                    under_way = None;
                    continue;
                }
                Ok(None) => {}
                Err(_) => {
                    seen.push(Seen::of(&head.request, None));
                    return (seen, None);
                }
            },
        }
        let Some(piece) = pieces.next() else { break };
        buffer.extend_from_slice(piece);
    }
    seen.extend(under_way.map(|(head, _)| Seen::of(&head.request, None)));
    (seen, None)
}

/// What hyper makes of it.
async fn hypers(pieces: &[Bytes]) -> Vec<Seen> {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let seen = seen.clone();
        async move {
            let (head, body) = request.into_parts();
            let request = Request::from_parts(head, ());
            let at = {
                let mut seen = seen.lock().unwrap();
                seen.push(Seen::of(&request, None));
                seen.len() - 1
            };
            if let Ok(body) = body.collect().await {
                seen.lock().unwrap()[at].body = Some(body.to_bytes().to_vec());
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let io = hyper_util::rt::TokioIo::new(far);
    let served = async {
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
    };
    let sent = async {
        for piece in pieces {
            if near.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        // It drops what answers when the client closes, so what it has must be answered before.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let _ = near.shutdown().await;
    };
    tokio::join!(served, sent);
    std::mem::take(&mut *seen.lock().unwrap())
}

fn block<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&bytes[pair[0]..pair[1]])).filter(|b| !b.is_empty()).collect()
}

/// A request as a client may write it, in every framing, or in none that is sound.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "POST /v1/x?y=1 HTTP/1.1",
        "PUT http://g/a%20b HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "X-OWN / HTTP/1.1",
        "POST / HTTP/1.0",
    ]);
    let framing =
        prop::sample::select(vec!["length", "lengths", "chunked", "none", "both", "gzip, chunked", "identity"]);
    let connection = prop::sample::select(vec![
        "",
        "connection: close\r\n",
        "Connection: keep-alive, X\r\n",
        "connection: CLOSE,\r\n",
    ]);
    let own = prop::collection::vec("X-[A-Ca-c]: {0,2}[!-~]{0,6}( [!-~]{1,3})?\t?", 0..4);
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..5);
    let extension = prop::sample::select(vec!["", ";a=b", " ;q=\"x\""]);
    let trailer = prop::sample::select(vec!["", "x-sum: 1\r\n"]);
    (line, framing, connection, own, chunks, extension, trailer).prop_map(
        |(line, framing, connection, own, chunks, extension, trailer)| {
            let own: String = own.iter().map(|header| format!("{header}\r\n")).collect();
            let mut bytes = format!("{line}\r\nHost: g\r\n{own}{connection}").into_bytes();
            let body = chunks.concat();
            let length = format!("Content-Length: {}\r\n", body.len());
            bytes.extend_from_slice(
                match framing {
                    "length" => length.as_bytes().to_vec(),
                    "lengths" => length.repeat(2).into_bytes(),
                    "both" => format!("transfer-encoding: chunked\r\n{length}").into_bytes(),
                    "none" => vec![],
                    coding => format!("Transfer-Encoding: {coding}\r\n").into_bytes(),
                }
                .as_slice(),
            );
            bytes.extend_from_slice(b"\r\n");
            match framing {
                "none" => {}
                "length" | "lengths" => bytes.extend(body),
                _ => {
                    for chunk in chunks {
                        bytes.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
                        bytes.extend(chunk);
                        bytes.extend_from_slice(b"\r\n");
                    }
                    bytes.extend(format!("0\r\n{trailer}\r\n").bytes());
                }
            }
            bytes
        },
    )
}

proptest! {
    #[test]
    fn what_is_taken_is_understood_as_hyper_does_however_it_is_cut(
        requests in prop::collection::vec(requests(), 1..4),
        changed in prop::option::weighted(0.3, (any::<usize>(), any::<u8>())),
        kept_bytes in prop::option::weighted(0.3, any::<usize>()),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let mut bytes = requests.concat();
        if let Some((place, byte)) = changed {
            let place = place % bytes.len();
            bytes[place] = byte;
        }
        bytes.truncate(kept_bytes.map_or(bytes.len(), |kept| kept % (bytes.len() + 1)));
        let (ours, refused) = ours(&cut(&bytes, &cuts));
        let hypers = block(hypers(&[Bytes::from(bytes)]));
        match refused {
            // Where hyper takes more, it takes what another server might understand otherwise.
            Some(_) => prop_assert!(hypers.starts_with(&ours), "{refused:?}\n{ours:?}\n{hypers:?}"),
            None => prop_assert_eq!(ours, hypers),
        }
    }
}

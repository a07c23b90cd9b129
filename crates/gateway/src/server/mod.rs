//! Listeners, connections, and the way to stop.
//!
//! Draining: readiness says no at once; after `drain_delay_ms` (for load balancers to notice) connections are refused;
//! requests under way go on for at most `drain_ms`.

mod room;
mod stall;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use prometheus_client::metrics::gauge::Gauge;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::room::Room;
use self::stall::Watched;

use crate::config::Config;
use crate::gateway::Gateway;
use crate::response::body::ResponseBody;
use crate::{admin, request};

/// Silence after which the system asks whether a client is still there: one that vanished would hold its place on a
/// replica for as long as the answer takes.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_024;
/// Connections to the admin port at a time.
const ADMIN_CONNECTIONS_MAX: usize = 1_024;
/// How long to wait before accepting again when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A gateway that serves.
#[derive(Debug)]
pub struct Running {
    gateway: Arc<Gateway>,
    data: Listening,
    admin: Listening,
}

#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    /// Dropping it closes the listener.
    stop: oneshot::Sender<()>,
    accepting: JoinHandle<GracefulShutdown>,
}

/// Which of the two ports.
#[derive(Clone, Copy, Debug)]
enum Port {
    Data,
    Admin,
}

/// What a client's connection may do.
#[derive(Clone, Copy, Debug)]
struct ConnectionLimits {
    /// Size of a request's head.
    head_bytes_max: usize,
    /// Time without a request, and for a request's head to arrive: the HTTP library has one timer for both.
    idle: Duration,
}

impl ConnectionLimits {
    fn of(config: &Config) -> Self {
        let idle = Duration::from_millis(config.timeouts.client_idle_ms);
        Self { head_bytes_max: config.limits.header_bytes_max, idle }
    }
}

impl Running {
    /// Binds both ports and starts serving.
    ///
    /// # Errors
    /// An address cannot be bound; the message names it.
    pub async fn start(config: Config) -> io::Result<Self> {
        let data = bind(config.listen, "listen").await?;
        let admin = bind(config.admin, "admin").await?;
        let limits = ConnectionLimits::of(&config);
        let gateway = Gateway::start(config);
        let room = Room::new(gateway.telemetry().client_connections.clone());
        let data = listen(data, limits, room, Port::Data, gateway.clone(), request::serve)?;
        let admin = listen(admin, limits, Room::new(Gauge::default()), Port::Admin, gateway.clone(), admin::serve)?;
        Ok(Self { gateway, data, admin })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.data.address
    }

    /// Where the admin API and metrics are.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address
    }

    /// The gateway, for reloads.
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Stops: refuses what is new, lets what is under way end. Says whether everything ended in time.
    pub async fn drain(self) -> bool {
        self.gateway.start_draining();
        let timeouts = self.gateway.snapshot().config.timeouts.clone();
        tokio::time::sleep(Duration::from_millis(timeouts.drain_delay_ms)).await;
        let open = stop_accepting(self.data).await;
        let ended = match open {
            Some(open) => tokio::time::timeout(Duration::from_millis(timeouts.drain_ms), open.shutdown()).await.is_ok(),
            None => true,
        };
        stop_accepting(self.admin).await;
        ended
    }
}

/// Closes the listener; gives the connections that are open.
async fn stop_accepting(listening: Listening) -> Option<GracefulShutdown> {
    drop(listening.stop);
    listening.accepting.await.ok()
}

async fn bind(address: SocketAddr, setting: &str) -> io::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address} (`{setting}`): {error}")))
}

fn listen<F, A>(
    listener: TcpListener,
    limits: ConnectionLimits,
    room: Room,
    port: Port,
    gateway: Arc<Gateway>,
    answer: F,
) -> io::Result<Listening>
where
    F: Fn(Arc<Gateway>, Request<Incoming>) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel();
    let accepting = tokio::spawn(accept((listener, stopped), limits, (room, port), gateway, answer));
    Ok(Listening { address, stop, accepting })
}

/// HTTP/1.1, and HTTP/2 where the client begins with it.
fn http(limits: ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(limits.head_bytes_max)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE)
        .max_header_list_size(limits.head_bytes_max as u32)
        .max_concurrent_streams(STREAMS_MAX);
    http
}

/// Ready when a connection is to be given up because it has not begun a request in time. The HTTP library watches the
/// time only once it knows which version is spoken.
async fn never_asks(idle: Duration, has_asked: Arc<AtomicBool>) {
    tokio::time::sleep(idle).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

async fn accept<F, A>(
    (listener, mut stopped): (TcpListener, oneshot::Receiver<()>),
    limits: ConnectionLimits,
    (room, port): (Room, Port),
    gateway: Arc<Gateway>,
    answer: F,
) -> GracefulShutdown
where
    F: Fn(Arc<Gateway>, Request<Incoming>) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let open = GracefulShutdown::new();
    let http = http(limits);
    loop {
        let connections_max = match port {
            Port::Data => gateway.snapshot().config.limits.connections_max,
            Port::Admin => ADMIN_CONNECTIONS_MAX,
        };
        let accepted = async {
            let place = room.enter(connections_max).await;
            (listener.accept().await, place)
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = &mut stopped => return open,
        };
        let (socket, place) = match accepted {
            (Ok((socket, _)), place) => (socket, place),
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Streams are many small writes; waiting to merge them would cost 40 ms each.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let stall = Duration::from_millis(gateway.snapshot().config.timeouts.client_stall_ms);
        let gateway = gateway.clone();
        let has_asked = Arc::new(AtomicBool::new(false));
        let give_up = never_asks(limits.idle, has_asked.clone());
        let service = service_fn(move |request| {
            has_asked.store(true, Ordering::Relaxed);
            let answer = answer(gateway.clone(), request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let socket = TokioIo::new(Watched::new(socket, stall));
        let connection = open.watch(http.serve_connection(socket, service).into_owned());
        tokio::spawn(async move {
            let _place = place;
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                },
                () = give_up => {}
            }
        });
    }
}

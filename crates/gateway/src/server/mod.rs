//! Listeners, connections, and the way to stop.
//!
//! Draining: readiness says no at once; after `drain_delay_ms` (for load balancers to notice) connections are refused;
//! requests under way go on for at most `drain_ms`.

mod date;
pub(crate) mod h1;
mod h2;
mod open;
mod room;
mod stall;
pub(crate) mod timer;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use prometheus_client::metrics::gauge::Gauge;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::open::{Connection, Connections};
use self::room::Room;
use self::stall::Watched;
use crate::config::Config;
use crate::gateway::Gateway;
use crate::request::body::RequestBody;
use crate::response::body::ResponseBody;
use crate::{admin, request};

/// Silence after which the system asks whether a client is still there: one that vanished would hold its place on a
/// replica for as long as the answer takes.
const KEEPALIVE: Duration = Duration::from_secs(30);
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
    accepting: JoinHandle<()>,
    connections: Connections,
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
    /// Time without a request, and for a request's head to arrive.
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
        let open = self.data.stop().await;
        let ended = tokio::time::timeout(Duration::from_millis(timeouts.drain_ms), open.drain()).await.is_ok();
        self.admin.stop().await;
        ended
    }
}

impl Listening {
    /// Closes the listener; gives the connections that are open.
    async fn stop(self) -> Connections {
        drop(self.stop);
        let _ = self.accepting.await;
        self.connections
    }
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
    F: Fn(Arc<Gateway>, Request<RequestBody>) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel();
    let connections = Connections::default();
    let to = (connections.clone(), room, port);
    let accepting = tokio::spawn(accept((listener, stopped), limits, to, gateway, answer));
    Ok(Listening { address, stop, accepting, connections })
}

async fn accept<F, A>(
    (listener, mut stopped): (TcpListener, oneshot::Receiver<()>),
    limits: ConnectionLimits,
    (connections, room, port): (Connections, Room, Port),
    gateway: Arc<Gateway>,
    answer: F,
) where
    F: Fn(Arc<Gateway>, Request<RequestBody>) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    loop {
        let connections_max = match port {
            Port::Data => gateway.snapshot().config.limits.connections_max,
            Port::Admin => ADMIN_CONNECTIONS_MAX,
        };
        let accepted = async {
            room.has_room(connections_max).await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            _ = &mut stopped => return,
        };
        let socket = match accepted {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = room.enter();
        // Streams are many small writes; waiting to merge them would cost 40 ms each.
        let _ = socket.set_nodelay(true);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let stall = Duration::from_millis(gateway.snapshot().config.timeouts.client_stall_ms);
        let gateway = gateway.clone();
        let open = connections.open();
        tokio::spawn(async move {
            let _place = place;
            serve(Watched::new(socket, stall), limits, &open, |request| answer(gateway.clone(), request)).await;
        });
    }
}

/// Serves a connection in HTTP/1.1, or in HTTP/2 where the client begins with it.
async fn serve<F, A>(stream: Watched<TcpStream>, limits: ConnectionLimits, open: &Connection, answer: F)
where
    F: Fn(Request<RequestBody>) -> A,
    A: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let mut io = h1::Io::new(stream, limits);
    poll_fn(|cx| {
        open.listen(cx);
        std::task::Poll::Ready(())
    })
    .await;
    match poll_fn(|cx| io.poll_is_http2(open, cx)).await {
        None => {}
        Some(false) => h1::serve(io, open, answer).await,
        Some(true) => h2::serve(io.into_parts(), limits, open, answer).await,
    }
}

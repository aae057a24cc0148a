//! Limits on what clients of a listening node have open at once: connections and requests.
//!
//! ```text
//!   accept --> place of a connection --> HTTP/2
//!   request's head --> place of a request --> its body, charged as it arrives --> answer
//! ```
//!
//! A connection that does not open in time is closed, and so is one that does not answer pings. A request
//! that does not come whole in time is refused.
//!
//! A connection too many is closed, a request too many is answered with [`ErrorKind::Busy`] before any
//! of its body is read.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tonic::Status;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::budget::{Account, Budget};
use crate::peer::Peer;

/// Bytes of the preface of HTTP/2 and of the head of the frame that follows it.
const OPENING_BYTES: usize = 24 + 9;
/// Bytes guaranteed to a request: nearly all are smaller.
const REQUEST_BYTES_GUARANTEED: usize = 64 << 10;

/// Number of places, in all and for one peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) what: &'static str,
    pub(crate) all: usize,
    pub(crate) of_peer: usize,
}

/// Places of one kind, by peer.
#[derive(Debug)]
pub(crate) struct Places {
    limit: Limit,
    taken: Mutex<HashMap<Peer, usize>>,
}

/// A place that is taken, free when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    peer: Peer,
}

impl Places {
    pub(crate) fn new(limit: Limit) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default() })
    }

    /// A place for `peer`.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] if all are taken, or all that the peer may have.
    pub(crate) fn take(self: &Arc<Self>, peer: &Peer) -> Result<Place, NodeError> {
        let mut taken = self.taken.lock();
        let Limit { what, all, of_peer } = self.limit;
        let (now, now_of_peer) = (taken.values().sum::<usize>(), taken.get(peer).copied().unwrap_or(0));
        let busy = |why: String| Err(NodeError::new(ErrorKind::Busy, format!("the storage node has {why}")));
        if now_of_peer >= of_peer {
            return busy(format!("{now_of_peer} {what} of {peer}, as many as one client may have"));
        }
        if now >= all {
            return busy(format!("{now} {what}, as many as there may be"));
        }
        *taken.entry(peer.clone()).or_default() += 1;
        Ok(Place { places: Arc::clone(self), peer: peer.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(count) = taken.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.peer);
            }
        }
    }
}

/// A connection with its place.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Until it has opened; from then on it is pinged, and closed if it does not answer.
    opening: Option<Opening>,
    _place: Place,
}

/// The beginning of a connection, which HTTP/2 waits for without an end.
#[derive(Debug)]
struct Opening {
    until: Pin<Box<Sleep>>,
    /// Bytes of the preface and the head of the first frame that have not come.
    missing: usize,
}

impl Connection {
    /// A connection that must open within `opening_max`.
    pub(crate) fn new(stream: TcpStream, place: Place, opening_max: Duration) -> Self {
        let opening = Opening { until: Box::pin(tokio::time::sleep(opening_max)), missing: OPENING_BYTES };
        Self { stream, opening: Some(opening), _place: place }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Some(opening) = &mut self.opening {
            opening.missing = opening.missing.saturating_sub(buffer.filled().len() - before);
            if opening.missing == 0 {
                self.opening = None;
            } else if opening.until.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The place and the bytes of an admitted request: an extension of it, kept until its answer ends.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    /// Holds the request's bytes.
    pub(crate) account: Account,
    _place: Arc<Place>,
}

impl Admitted {
    pub(crate) fn new(place: Place, budget: &Arc<Budget>) -> Self {
        let account = budget.account(place.peer.clone(), "", REQUEST_BYTES_GUARANTEED);
        Self { account, _place: Arc::new(place) }
    }

    /// The peer that sent the request.
    pub(crate) fn peer(&self) -> &Peer {
        self.account.peer()
    }
}

/// A gRPC service, of which each request needs a place.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S> {
    inner: S,
    requests: Arc<Places>,
    budget: Arc<Budget>,
    body_time_max: Duration,
}

impl<S> Guarded<S> {
    /// `inner`, whose requests come whole within `body_time_max`.
    pub(crate) fn new(inner: S, requests: Arc<Places>, budget: Arc<Budget>, body_time_max: Duration) -> Self {
        Self { inner, requests, budget, body_time_max }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<tonic::body::Body>> for Guarded<S>
where
    S: Service<http::Request<tonic::body::Body>, Response = http::Response<tonic::body::Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<S::Response, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let address = request.extensions().get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
        let peer = address.map_or_else(Peer::unknown, Peer::at);
        let place = match self.requests.take(&peer) {
            Ok(place) => place,
            Err(error) => return Box::pin(async { Ok(Status::from(error).into_http()) }),
        };
        let admitted = Admitted::new(place, &self.budget);
        let account = admitted.account.clone();
        let until = Box::pin(tokio::time::sleep(self.body_time_max));
        let mut request =
            request.map(|body| tonic::body::Body::new(ChargedBody { inner: body, account: account.clone(), until }));
        request.extensions_mut().insert(admitted);
        Box::pin(self.inner.call(request))
    }
}

/// The body of a request, charged as it arrives.
struct ChargedBody {
    inner: tonic::body::Body,
    account: Account,
    /// When all of it must be there.
    until: Pin<Box<Sleep>>,
}

impl Body for ChargedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        if !matches!(frame, Poll::Ready(None)) && self.until.as_mut().poll(cx).is_ready() {
            let why = "the request did not come in time";
            return Poll::Ready(Some(Err(NodeError::new(ErrorKind::DeadlineExceeded, why).into())));
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && !self.account.try_take(data.len())
        {
            let why = "the storage node has no memory for the request now";
            return Poll::Ready(Some(Err(NodeError::new(ErrorKind::Busy, why).into())));
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_for_all_and_for_each() {
        let places = Places::new(Limit { what: "requests", all: 3, of_peer: 2 });
        let peer = |n: u8| Peer::at(format!("10.0.0.{n}:1").parse().unwrap());
        let mut taken: Vec<_> = [1, 1, 2].map(|n| places.take(&peer(n)).unwrap()).into();
        let error = places.take(&peer(1)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.message.contains("2 requests of 10.0.0.1"), "{error}");
        let error = places.take(&peer(2)).unwrap_err();
        assert!(error.message.contains("3 requests, as many as there may be"), "{error}");
        taken.remove(0);
        assert!(places.take(&peer(1)).is_ok());
        taken.clear();
        assert!(places.taken.lock().is_empty(), "nobody is remembered");
    }
}

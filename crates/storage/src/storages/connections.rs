//! Connections to one storage node, as many as its streams need.
//!
//! ```text
//!   answers ---> [stream window] --+
//!   answers ---> [stream window] --+--> connection 1      at most `streams` each
//!   answers ---> [stream window] -----> connection 2      opened when the first is full
//! ```
//!
//! An answer that nobody reads fills its stream's window and stays there. If the windows of such
//! streams could add up to the connection's, all other answers over it would stand still.
//!
//! Invariant: streams of a connection x stream window <= `CONNECTION_WINDOW`, so that every
//! stream can fill its window whatever the others do.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thermocline_pushdown::NodeError;
use thermocline_pushdown::wire::ErrorKind;
use tonic::transport::{Channel, Endpoint};

use crate::service::STREAMS_PER_CONNECTION_MAX;

/// The largest window that HTTP/2 knows.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Options of connections.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionOptions {
    pub(crate) connect_timeout: Duration,
    /// A peer that does not answer a ping for this long is gone.
    pub(crate) keepalive_timeout: Duration,
    /// Bytes of an answer that may wait here for whoever reads it.
    pub(crate) stream_window: u32,
    /// Streams of one connection, at most what the node allows.
    pub(crate) streams: usize,
}

/// The connections to one node.
#[derive(Debug)]
pub(crate) struct Connections {
    endpoint: Endpoint,
    streams_max: usize,
    open: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    /// Connects on first use and again whenever the connection was lost.
    channel: Channel,
    /// One reference here and one for each stream.
    streams: Arc<()>,
}

/// The place of one stream in a connection, free when this is dropped.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    _stream: Arc<()>,
}

impl Connections {
    /// Connects to `address` (`host:port`) on first use.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] if the address is not one.
    pub(crate) fn new(address: &str, options: &ConnectionOptions) -> Result<Self, NodeError> {
        let wrong = |why: String| {
            NodeError::new(ErrorKind::Refused, format!("'{address}' is not a storage node's address: {why}"))
        };
        if !address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()) {
            return Err(wrong("expected host:port".into()));
        }
        let window = options.stream_window.clamp(1, CONNECTION_WINDOW);
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| wrong(error.to_string()))?
            .connect_timeout(options.connect_timeout)
            .http2_keep_alive_interval(options.keepalive_timeout / 2)
            .keep_alive_timeout(options.keepalive_timeout)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true)
            .initial_stream_window_size(window)
            .initial_connection_window_size(CONNECTION_WINDOW);
        let fitting = (CONNECTION_WINDOW / window) as usize;
        let streams_max = options.streams.clamp(1, STREAMS_PER_CONNECTION_MAX as usize).min(fitting);
        Ok(Self { endpoint, streams_max, open: Mutex::default() })
    }

    /// A connection with room for a stream, opened if there is none.
    pub(crate) fn stream(&self) -> (Channel, StreamPlace) {
        let mut open = self.open.lock();
        let mut position = 0;
        // One idle connection is kept, so that the next query finds it.
        open.retain(|connection| {
            position += 1;
            position == 1 || Arc::strong_count(&connection.streams) > 1
        });
        let free = open.iter().find(|connection| Arc::strong_count(&connection.streams) <= self.streams_max);
        let (channel, streams) = match free {
            Some(connection) => (connection.channel.clone(), Arc::clone(&connection.streams)),
            None => {
                let connection = Connection { channel: self.endpoint.connect_lazy(), streams: Arc::new(()) };
                let stream = (connection.channel.clone(), Arc::clone(&connection.streams));
                open.push(connection);
                stream
            }
        };
        (channel, StreamPlace { _stream: streams })
    }

    /// Connections open now.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.open.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn streams_beyond_a_connection_open_another() {
        let options = ConnectionOptions {
            connect_timeout: Duration::from_secs(1),
            keepalive_timeout: Duration::from_secs(1),
            stream_window: 64 << 10,
            streams: 2,
        };
        let connections = Connections::new("127.0.0.1:1", &options).unwrap();
        let mut places: Vec<_> = (0..5).map(|_| connections.stream().1).collect();
        assert_eq!(connections.count(), 3);
        places.truncate(1);
        places.push(connections.stream().1);
        assert_eq!(connections.count(), 1, "idle ones are closed, the first has room");
        places.clear();
        let _place = connections.stream();
        assert_eq!(connections.count(), 1);
    }

    #[tokio::test]
    async fn windows_of_streams_fit_into_the_connection() {
        let options = ConnectionOptions {
            connect_timeout: Duration::from_secs(1),
            keepalive_timeout: Duration::from_secs(1),
            stream_window: 1 << 30,
            streams: usize::MAX,
        };
        assert_eq!(Connections::new("127.0.0.1:1", &options).unwrap().streams_max, 1);
        let small = ConnectionOptions { stream_window: 0, ..options };
        let streams = Connections::new("127.0.0.1:1", &small).unwrap().streams_max;
        assert_eq!(streams, STREAMS_PER_CONNECTION_MAX as usize);
    }
}

//! Listings of a directory: objects and their versions, skipped entries, symbolic links.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use prost::Message;
use thermocline_pushdown::wire::{ErrorKind, Handshake, ListResponse, ObjectEntry, SkippedEntry, VERSIONS_HEADER};
use thermocline_storage::{NodeClient, NodeConfig, RemoteOptions, Root, StorageNode};
use tonic::{Request, Response, Status, Streaming};

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

async fn paths(root: &Root, prefix: &str) -> Vec<String> {
    root.list(prefix).await.unwrap().objects.into_iter().map(|object| object.path).collect()
}

#[tokio::test]
async fn objects_are_listed_by_path_in_the_version_that_reads_find() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    for name in ["b.csv", "a/2.csv", "a/10.csv", "a/deep/er/x.csv", "a b/ü%20.csv", "a-.csv"] {
        write(&directory.join(name), name);
    }
    for name in [".hidden/x.csv", "a/_temporary/x.csv", "a/.x.csv"] {
        write(&directory.join(name), "hidden");
    }
    write(&directory.join("a/empty.csv"), "");
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let objects = root.list("").await.unwrap().objects;
    let found: Vec<_> = objects.iter().map(|object| object.path.as_str()).collect();
    assert_eq!(found, ["a b/ü%20.csv", "a-.csv", "a/10.csv", "a/2.csv", "a/deep/er/x.csv", "b.csv"]);
    for object in &objects {
        let bytes = root.get(object, 0..object.size).await.unwrap().bytes().await.unwrap();
        assert_eq!(bytes, object.path.as_bytes());
    }
    assert_eq!(paths(&root, "a").await, ["a/10.csv", "a/2.csv", "a/deep/er/x.csv"]);
    assert_eq!(paths(&root, "a/").await, paths(&root, "a").await);
    assert_eq!(paths(&root, "a/2.csv").await, ["a/2.csv"]);
    assert_eq!(root.list("a/2.csv").await.unwrap().objects[0], objects[3], "by its name and with others");
    assert!(paths(&root, "no/such").await.is_empty());

    let before = objects[5].clone();
    write(&directory.join("b.csv"), "other");
    let error = root.get(&before, 0..1).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::VersionChanged);
    assert_ne!(root.list("b.csv").await.unwrap().objects[0].version, before.version);
}

#[tokio::test]
async fn links_within_root_are_followed_once_and_none_leads_out() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    let outside = temporary.path().join("outside");
    write(&outside.join("secret.csv"), "secret");
    write(&directory.join("a/x.csv"), "x");
    write(&directory.join("b/y.csv"), "y");
    symlink(outside.join("secret.csv"), directory.join("a/secret.csv")).unwrap();
    symlink(&outside, directory.join("out")).unwrap();
    symlink(directory.join("nowhere"), directory.join("a/broken.csv")).unwrap();
    symlink(directory.join("a/x.csv"), directory.join("alias.csv")).unwrap();
    // Loops: to itself, to where it came from, and by way of each other.
    symlink(&directory, directory.join("a/up")).unwrap();
    symlink(directory.join("b"), directory.join("a/to_b")).unwrap();
    symlink(directory.join("a"), directory.join("b/to_a")).unwrap();
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let found = paths(&root, "").await;
    assert_eq!(found, ["a/to_b/y.csv", "a/x.csv", "alias.csv", "b/to_a/x.csv", "b/y.csv"]);
    for object in root.list("").await.unwrap().objects {
        root.get(&object, 0..1).await.unwrap();
    }
    assert!(paths(&root, "out").await.is_empty());
    assert!(paths(&root, "a/secret.csv").await.is_empty());
}

#[tokio::test]
async fn links_that_multiply_end() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    for level in 0..40 {
        write(&directory.join(format!("{level}/x.csv")), "x");
        for link in ["left", "right"] {
            symlink(directory.join(format!("{}", level + 1)), directory.join(format!("{level}/{link}"))).unwrap();
        }
    }
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let found = paths(&root, "0").await;
    // 2^n ways to the directory n links away, eight links at the most.
    assert_eq!(found.len(), (1 << 9) - 1);
}

#[tokio::test]
async fn what_is_no_object_is_skipped_with_its_reason() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    write(&directory.join("t/x.csv"), "x");
    let name = std::ffi::OsStr::from_bytes(b"\xff.csv");
    fs::write(directory.join("t").join(name), "x").unwrap();
    fs::write(directory.join("t/line\nbreak.csv"), "x").unwrap();
    symlink(directory.join("t"), directory.join("t/up")).unwrap();
    let found = Root::open(directory.to_str().unwrap()).unwrap().list("t").await.unwrap();
    assert_eq!(found.objects.iter().map(|object| object.path.as_str()).collect::<Vec<_>>(), ["t/x.csv"]);
    let skipped: Vec<_> = found.skipped.iter().map(|entry| (entry.path.as_str(), entry.reason.as_str())).collect();
    let expected = [
        ("t/line\nbreak.csv", "its name holds characters that no object has"),
        ("t/up", "a symbolic link to a directory that it is in"),
        ("t/\u{fffd}.csv", "its name is not UTF-8"),
    ];
    assert_eq!((skipped.as_slice(), found.skipped_total, found.missing), (&expected[..], 3, false));
}

#[tokio::test]
async fn what_is_gone_is_missing_and_what_is_empty_is_not() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = temporary.path().join("root");
    let outside = temporary.path().join("outside");
    write(&directory.join("t/x.csv"), "x");
    fs::create_dir_all(&outside).unwrap();
    symlink(&outside, directory.join("out")).unwrap();
    let root = Root::open(directory.to_str().unwrap()).unwrap();
    let missing = |prefix: &'static str| {
        let root = root.clone();
        async move { root.list(prefix).await.map(|found| found.missing) }
    };
    for prefix in ["", "t", "t/x.csv"] {
        assert!(!missing(prefix).await.unwrap(), "{prefix}");
    }
    for prefix in ["u", "t/y.csv", "t/x.csv/y", "out"] {
        assert!(missing(prefix).await.unwrap(), "{prefix}");
    }
    fs::remove_file(directory.join("t/x.csv")).unwrap();
    assert!(!missing("t").await.unwrap());
    fs::remove_dir_all(&directory).unwrap();
    for prefix in ["", "t"] {
        assert_eq!(missing(prefix).await.unwrap_err().kind, ErrorKind::Unavailable, "{prefix}");
    }
}

/// A node that lists without an end.
struct Endless {
    message: ListResponse,
    /// The versions that its answers name.
    versions: String,
}

#[async_trait::async_trait]
impl FlightService for Endless {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let is_handshake = request.into_inner().r#type == "handshake";
        let body: bytes::Bytes = match is_handshake {
            true => Handshake::of_this_build().encode_to_vec().into(),
            false => self.message.encode_to_vec().into(),
        };
        let messages = futures::stream::repeat_with(move || Ok(arrow_flight::Result { body: body.clone() }));
        let mut response = Response::new(messages.take(if is_handshake { 1 } else { usize::MAX }).boxed());
        response.metadata_mut().insert(VERSIONS_HEADER, self.versions.parse().unwrap());
        Ok(response)
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// Serves such a node; its address.
async fn endless(message: ListResponse, versions: String) -> (tokio::task::JoinHandle<()>, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tonic::transport::Server::builder()
        .add_service(FlightServiceServer::new(Endless { message, versions }))
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
    (tokio::spawn(async move { server.await.unwrap() }), address)
}

#[tokio::test]
async fn folders_below_the_last_level_are_not_read() {
    let temporary = tempfile::tempdir().unwrap();
    for name in ["a.csv", "x/b.csv", "x/y/c.csv"] {
        write(&temporary.path().join(name), name);
    }
    symlink(temporary.path().join("x"), temporary.path().join("z")).unwrap();
    let root = Root::open(temporary.path().to_str().unwrap()).unwrap();
    let client = NodeClient::embedded(StorageNode::new(root, NodeConfig::default()).unwrap());
    for (prefix, levels, expected) in [
        ("", 1, vec!["a.csv"]),
        ("", 2, vec!["a.csv", "x/b.csv", "z/b.csv"]),
        ("", 3, vec!["a.csv", "x/b.csv", "x/y/c.csv", "z/b.csv", "z/y/c.csv"]),
        ("x", 1, vec!["x/b.csv"]),
        ("x/b.csv", 1, vec!["x/b.csv"]),
    ] {
        let listed = client.listing_of_levels(prefix, levels).await.unwrap();
        let found: Vec<_> = listed.objects.iter().map(|object| object.path.as_str()).collect();
        assert_eq!(found, expected, "{levels} below {prefix:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_another_version_are_refused() {
    let ours = Handshake::of_this_build();
    for versions in [
        format!("{} {}", ours.protocol_version + 1, ours.datafusion_version),
        format!("{} 55.99.0", ours.protocol_version),
        "nonsense".to_owned(),
    ] {
        // It shakes hands as one of ours does, as a node that was replaced since did.
        let (server, address) = endless(ListResponse::default(), versions.clone()).await;
        let client = NodeClient::remote(&address, &RemoteOptions::default()).unwrap();
        let error = client.list("t").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{versions}: {error}");
        assert!(error.message.contains("upgrade"), "{versions}: {error}");
        server.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_without_an_end_is_given_up() {
    let object = ObjectEntry { path: "o".into(), version: "v".into(), size: 1 };
    let skipped = SkippedEntry { path: "s".into(), size: 1, reason: "why".into() };
    for message in [
        ListResponse { objects: vec![object; 4096], ..ListResponse::default() },
        ListResponse { skipped: vec![skipped; 100], skipped_total: u64::MAX, ..ListResponse::default() },
    ] {
        let (server, address) = endless(message, Handshake::header().to_owned()).await;
        let client = NodeClient::remote(&address, &RemoteOptions::default()).unwrap();
        let error = client.list("t").await.unwrap_err();
        assert!(error.message.contains("goes on") && error.message.contains(&address), "{error}");
        server.abort();
    }
}

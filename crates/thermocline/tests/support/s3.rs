//! A real S3 server over a directory, on a free port of the loopback interface.

use std::path::Path;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;

/// A running server; it stops with the process.
pub struct S3Server {
    pub endpoint: String,
}

const ACCESS_KEY: &str = "test-access";
const SECRET_KEY: &str = "test-secret";

impl S3Server {
    /// Serves the folders of `root` as buckets.
    pub fn start(root: &Path) -> Self {
        let files = s3s_fs::FileSystem::new(root).expect("an S3 root");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((socket, _)) = listener.accept().await {
                    let service = service.clone();
                    tokio::spawn(async move {
                        let connections = Builder::new(TokioExecutor::new());
                        let _ = connections.serve_connection(TokioIo::new(socket), service).await;
                    });
                }
            });
        });
        Self { endpoint }
    }

    /// Environment variables that a storage node process needs to reach the server.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.into()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.into()),
            ("AWS_REGION", "us-east-1".into()),
        ]
    }
}

//! C-4: neither credentials nor statements nor values nor what servers say of them can be shown or logged.

use super::clickhouse_support::{PASSWORD, Script, Server, USER, answer, connection, server_uuid, spec};
use super::{LOST, SECRET_VALUE, bootstrap, clock, insert};
use publication_operator::clickhouse::{
    Authority, Connection, ConnectionError, ConnectionSpec, DistributedDdl, TlsMaterial,
};
use publication_protocol::ports::ControlTable;
use std::sync::Arc;

// proves: C-4
#[tokio::test]
async fn nothing_secret_is_in_what_can_be_shown() {
    let mutation = insert();
    let server = Server::start(Script::KeepAlive(answer("500 X", "", LOST))).await;
    let spec = spec(&format!("http://127.0.0.1:{}", server.port));
    let connection = Arc::new(Connection::new(spec.clone()).unwrap());
    let authority = Authority::new(Arc::clone(&connection));
    let ddl = DistributedDdl::new(Arc::clone(&connection), clock());
    let answer = authority.mutate(&server_uuid(), &mutation).await;
    let read = authority.read_all("k").await;
    let bad_ca = TlsMaterial { ca_pem: Some(b"not-a-certificate".to_vec()), client: None };
    let error = Connection::new(ConnectionSpec { tls: bad_ca, ..spec.clone() }).unwrap_err();
    let user = Connection::new(ConnectionSpec { user: "a:b\n".into(), ..spec.clone() }).unwrap_err();
    assert_eq!(user, ConnectionError::Credentials);
    let shown = format!(
        "{spec:?} {connection:?} {authority:?} {ddl:?} {answer:?} {read:?} {error:?} {error} {user:?} {user}"
    );
    for secret in
        [PASSWORD, USER, "http://", "INSERT", "SELECT", SECRET_VALUE, "Connection loss", "not-a-cert"]
    {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    // The label is what a person may see of an endpoint.
    assert!(shown.contains(&format!("127.0.0.1:{}", server.port)));
}

#[derive(Clone, Default)]
struct Log(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

// proves: C-4
#[tokio::test]
async fn nothing_secret_is_logged_at_any_level() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    tracing::info!("the log works");
    let quoting = format!("Code: 27. DB::Exception: Cannot parse input: '{SECRET_VALUE}'. (CANNOT_PARSE)\n");
    for script in [
        Script::KeepAlive(answer("500 X", "", &quoting)),
        Script::KeepAlive(answer("200 OK", "", &quoting)),
        Script::Swallow,
        Script::Close,
    ] {
        let server = Server::start(script).await;
        let authority = Authority::new(connection(server.port));
        authority.mutate(&server_uuid(), &insert()).await;
        authority.read_all("k").await;
        bootstrap(server.port).await;
    }
    let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
    assert!(logged.contains("the log works"));
    for secret in [PASSWORD, USER, "INSERT", "SELECT", "CREATE TABLE", SECRET_VALUE, "Cannot parse"] {
        assert!(!logged.contains(secret), "{secret} in {logged}");
    }
}

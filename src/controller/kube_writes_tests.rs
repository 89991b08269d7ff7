use super::*;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An API server with one object, which refuses a write over another version.
#[derive(Clone)]
struct OneObject(Arc<Mutex<Value>>);

impl OneObject {
    fn with(finalizers: &[&str]) -> Self {
        Self(Arc::new(Mutex::new(json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "ClusterPublication",
            "metadata": {
                "name": "orders", "namespace": "shop", "uid": "u", "resourceVersion": "1", "finalizers": finalizers,
            },
            "spec": {
                "clusterRef": {"name": "analytics"}, "database": "shop", "target": "orders",
                "candidate": "orders__pub_1", "rows": {"exact": 1},
            },
        }))))
    }

    fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    fn object(&self) -> ClusterPublication {
        serde_json::from_value(self.0.lock().unwrap().clone()).unwrap()
    }

    fn finalizers(&self) -> Vec<String> {
        self.object().metadata.finalizers.unwrap_or_default()
    }

    /// Another controller's write.
    fn add(&self, finalizer: &str) {
        let mut object = self.0.lock().unwrap();
        object["metadata"]["finalizers"].as_array_mut().unwrap().push(finalizer.into());
        next_version(&mut object);
    }

    fn answer(&self, patch: &Value) -> (u16, Value) {
        let mut object = self.0.lock().unwrap();
        let meta = &patch["metadata"];
        let over = meta["resourceVersion"].as_str();
        if over.is_some_and(|over| object["metadata"]["resourceVersion"] != over) {
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict",
                "message": "the object has been modified", "code": 409,
            });
            return (409, status);
        }
        if meta["finalizers"].is_array() {
            object["metadata"]["finalizers"] = meta["finalizers"].clone();
        }
        if !patch["status"].is_null() {
            object["status"] = patch["status"].clone();
        }
        next_version(&mut object);
        (200, object.clone())
    }
}

fn next_version(object: &mut Value) {
    let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
}

impl tower_service::Service<Request<Body>> for OneObject {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let (code, answer) = server.answer(&serde_json::from_slice(&body).unwrap());
            let body = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok(Response::builder().status(code).body(body).unwrap())
        })
    }
}

const OTHER: &str = "example.com/other";

/// Every finalizer write of the operator goes through `set_finalizer`.
#[tokio::test]
async fn a_finalizer_that_was_added_meanwhile_is_never_taken_away() {
    for what in [Finalizer::Add, Finalizer::Remove] {
        let server = OneObject::with(&[FINALIZER]);
        let read = server.object();
        server.add(OTHER);
        let version = Version::of(&read);
        let written = set_finalizer(&server.client(), &read, what, &version).await;
        assert!(matches!(written, Err(kube::Error::Api(status)) if status.code == 409), "{what:?}");
        assert_eq!(server.finalizers(), [FINALIZER, OTHER]);
        // Looked at again, ours goes and the other one stays.
        let again = server.object();
        let version = Version::of(&again);
        set_finalizer(&server.client(), &again, Finalizer::Remove, &version).await.unwrap();
        assert_eq!(server.finalizers(), [OTHER]);
    }
}

/// The status is written first; that must not cost another pass.
#[tokio::test]
async fn a_finalizer_goes_over_the_version_that_this_pass_wrote_itself() {
    let server = OneObject::with(&[FINALIZER]);
    let read = server.object();
    let version = Version::of(&read);
    let status = json!({"phase": "Completed"});
    apply_status_over(&server.client(), &read, &status, &version).await.unwrap();
    set_finalizer(&server.client(), &read, Finalizer::Remove, &version).await.unwrap();
    assert_eq!(server.finalizers(), Vec::<String>::new());
    assert_eq!(server.object().status.unwrap().phase.as_deref(), Some("Completed"));
}

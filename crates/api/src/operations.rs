//! What each operation is called and what a key must be allowed for it: the one table, beside the routes.

use axum::http::Method;
use domain::scope::Permission::{self, Ask, Files, Machine, Read};
use domain::scope::Scope;

/// An operation of the interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its name, as the schema has it.
    pub id: &'static str,
    /// What a key must be allowed: any of these is enough.
    pub needs: &'static [Permission],
    pub(crate) method: Method,
    /// The path as the router has it.
    pub path: &'static str,
}

const fn operation(
    method: Method,
    path: &'static str,
    id: &'static str,
    needs: &'static [Permission],
) -> Operation {
    Operation { id, needs, method, path }
}

/// Every operation.
pub static OPERATIONS: [Operation; 22] = [
    // By it a key is tried, so any key may.
    operation(Method::GET, "/api/v1/vm", "getVm", &Permission::ALL),
    operation(Method::POST, "/api/v1/vm/start", "startVm", &[Machine]),
    operation(Method::POST, "/api/v1/vm/stop", "stopVm", &[Machine]),
    // Who may ask may see what there is to choose from.
    operation(Method::GET, "/api/v1/models", "listModels", &[Read, Ask]),
    operation(Method::GET, "/api/v1/jurisdictions", "listJurisdictions", &[Read, Ask]),
    operation(Method::GET, "/api/v1/skills", "listSkills", &[Read, Ask]),
    operation(Method::GET, "/api/v1/agents", "listAgents", &[Read, Ask]),
    operation(Method::POST, "/api/v1/files", "uploadFile", &[Files]),
    operation(Method::GET, "/api/v1/files/{*path}", "downloadFile", &[Files]),
    operation(Method::DELETE, "/api/v1/files/{*path}", "deleteFile", &[Files]),
    operation(Method::GET, "/api/v1/directories", "listHomeDirectory", &[Files]),
    operation(Method::GET, "/api/v1/directories/{*path}", "listDirectory", &[Files]),
    operation(Method::POST, "/api/v1/directories/{*path}", "createDirectory", &[Files]),
    operation(Method::POST, "/api/v1/chats", "askQuestion", &[Ask]),
    operation(Method::GET, "/api/v1/chats", "listChats", &[Read]),
    operation(Method::GET, "/api/v1/chats/{chatId}", "getChat", &[Read]),
    operation(Method::DELETE, "/api/v1/chats/{chatId}", "deleteChat", &[Ask]),
    operation(Method::PATCH, "/api/v1/chats/{chatId}", "changeChat", &[Ask]),
    operation(Method::POST, "/api/v1/chats/{chatId}/stop", "stopChat", &[Ask]),
    operation(Method::GET, "/api/v1/chats/{chatId}/messages/{messageId}", "collectAnswer", &[Read]),
    operation(Method::GET, "/api/v1/chats/{chatId}/messages/{messageId}/events", "streamAnswer", &[Read]),
    operation(Method::GET, "/api/v1/chats/{chatId}/events", "streamChat", &[Read]),
];

impl Operation {
    /// The operation behind a method and the path of a route; `None` when the path has no such method.
    #[must_use]
    pub fn of(method: &Method, path: &str) -> Option<&'static Self> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let path = path.trim_end_matches('/');
        let mut of_method = OPERATIONS.iter().filter(|one| one.method == *method);
        let exact = of_method.clone().find(|one| one.path == path);
        // The router knows the home folder's path with and without a slash at its end.
        exact.or_else(|| of_method.find(|one| one.path.strip_suffix("/{*path}") == Some(path)))
    }

    /// Whether a key of this scope may do it.
    #[must_use]
    pub fn allowed(&self, scope: Scope) -> bool {
        self.needs.iter().any(|permission| scope.allows(*permission))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_one_operation_however_its_path_ends() {
        let id = |method, path| Operation::of(&method, path).map(|one| one.id);
        assert_eq!(id(Method::GET, "/api/v1/directories/"), Some("listHomeDirectory"));
        assert_eq!(id(Method::POST, "/api/v1/directories/"), Some("createDirectory"));
        assert_eq!(id(Method::HEAD, "/api/v1/files/{*path}"), Some("downloadFile"));
        assert_eq!(id(Method::DELETE, "/api/v1/files"), Some("deleteFile"));
        assert_eq!(id(Method::POST, "/api/v1/files/"), Some("uploadFile"));
        assert_eq!(id(Method::PUT, "/api/v1/files"), None);
        assert_eq!(id(Method::GET, "/api/v1/nothing"), None);
    }

    #[test]
    fn only_what_a_scope_names_is_allowed() {
        let allowed = |permission| {
            let scope = Scope::of(&[permission]).expect("there is one");
            OPERATIONS.iter().filter(|one| one.allowed(scope)).map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(allowed(Machine), ["getVm", "startVm", "stopVm"]);
        let ask = [
            "getVm",
            "listModels",
            "listJurisdictions",
            "listSkills",
            "listAgents",
            "askQuestion",
            "deleteChat",
            "changeChat",
            "stopChat",
        ];
        assert_eq!(allowed(Ask), ask);
        assert!(allowed(Files).iter().skip(1).all(|id| id.contains("File") || id.contains("Directory")));
        assert!(allowed(Read).iter().all(|id| {
            id.starts_with("get")
                || id.starts_with("list")
                || id.starts_with("stream")
                || *id == "collectAnswer"
        }));
        assert!(OPERATIONS.iter().all(|one| one.allowed(Scope::ALL)));
    }
}

//! The operations of the interface. Each is declared once, beside its handler, by [`operation!`].
//!
//! A declaration contains the routes, the permissions, the kind and limit of the body, and the schema. The router, the
//! authorization, the limits of bodies and transfers, the metrics and the `OpenAPI` document follow from the list below.

use axum::http::Method;
use axum::routing::MethodRouter;
use domain::scope::Permission;

/// An operation of the interface.
#[derive(Debug)]
pub struct Operation {
    /// The name in the schema.
    pub id: &'static str,
    /// The permissions; any one of them is enough.
    pub needs: &'static [Permission],
    pub(crate) method: Method,
    /// The path of the route.
    pub path: &'static str,
    /// Further paths of the route.
    pub(crate) aliases: &'static [&'static str],
    /// The request body.
    pub(crate) accepts: Accepts,
    /// True for a transfer of a file. The number of an account's transfers at one time is limited.
    pub(crate) transfer: bool,
    /// The headers of the responses, by statuses.
    pub(crate) headers: &'static [(&'static [&'static str], &'static [&'static str])],
    pub(crate) route: fn() -> MethodRouter<crate::State>,
}

/// The request body of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepts {
    Nothing,
    /// A JSON object, read by [`crate::extract::JsonBody`].
    Json {
        max_bytes: usize,
    },
    /// A form with a file, streamed to disk within the operator's limit and the quota.
    Form,
}

/// Declares an operation:
///
/// ```text
/// operation! {
///     /// Summary
///     ///
///     /// Description
///     name = method "path of the document" as "operationId" => handler;
///     routes: ["path of the router", "another"];  // unless it is that of the document
///     needs: &[Permission];
///     accepts: Accepts::Json { .. };              // unless it reads no body
///     transfer: true;                             // where it moves a file
///     headers: &[(&[status], &[header])];         // where its responses have some
///     schema:
///         params(..), request_body(..), responses(..), // as utoipa takes them
/// }
/// ```
macro_rules! operation {
    (
        $(#[doc = $doc:literal])+
        $name:ident = $method:ident $path:literal as $id:literal => $handler:ident;
        $(routes: [$route:literal $(, $alias:literal)*];)?
        needs: $needs:expr;
        $(accepts: $accepts:expr;)?
        $(transfer: $transfer:literal;)?
        $(headers: $headers:expr;)?
        schema: $($schema:tt)*
    ) => {
        #[utoipa::path($method, path = $path, operation_id = $id, $($schema)*)]
        $(#[doc = $doc])+
        pub(crate) const fn $name() -> $crate::operations::Operation {
            $crate::operations::Operation {
                id: $id,
                needs: $needs,
                method: $crate::operations::operation!(@method $method),
                path: $crate::operations::operation!(@or $path $(, $route)?),
                aliases: &[$($($alias),*)?],
                accepts: $crate::operations::operation!(@or $crate::operations::Accepts::Nothing $(, $accepts)?),
                transfer: $crate::operations::operation!(@or false $(, $transfer)?),
                headers: $crate::operations::operation!(@or &[] $(, $headers)?),
                route: || axum::routing::$method($handler),
            }
        }
    };
    (@method get) => { axum::http::Method::GET };
    (@method post) => { axum::http::Method::POST };
    (@method patch) => { axum::http::Method::PATCH };
    (@method delete) => { axum::http::Method::DELETE };
    (@or $default:expr) => { $default };
    (@or $default:expr, $given:expr) => { $given };
}
pub(crate) use operation;

/// Lists the declarations.
macro_rules! operations {
    ($($module:ident::$name:ident,)+) => {
        /// Every operation.
        pub static OPERATIONS: [Operation; [$(stringify!($name)),+].len()] = [$(crate::$module::$name()),+];

        /// The operations' part of the document.
        #[derive(utoipa::OpenApi)]
        #[openapi(paths($(crate::$module::$name),+))]
        pub(crate) struct Declared;
    };
}

operations! {
    vm::get_vm,
    vm::start_vm,
    vm::stop_vm,
    catalogs::list_models,
    catalogs::list_jurisdictions,
    catalogs::list_skills,
    catalogs::list_agents,
    files::upload_file,
    files::download_file,
    files::delete_file,
    files::list_home_directory,
    files::list_directory,
    files::create_directory,
    chats::ask_question,
    chats::list_chats,
    history::get_chat,
    chats::delete_chat,
    chats::change_chat,
    chats::stop_chat,
    chats::collect_answer,
    replies::reply_to_call,
    streams::stream_answer,
    streams::stream_chat,
}

impl Operation {
    /// Returns the operation of a method and a route's path; `None` when the path does not have the method.
    #[must_use]
    pub fn find_by_route(method: &Method, path: &str) -> Option<&'static Self> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let path = path.trim_end_matches('/');
        let mut of_method = OPERATIONS.iter().filter(|one| one.method == *method);
        let exact = of_method.clone().find(|one| one.path == path);
        // The route of the home folder exists with and without a slash at its end.
        exact.or_else(|| of_method.find(|one| one.path.strip_suffix("/{*path}") == Some(path)))
    }

    /// Returns every path of the route.
    pub(crate) fn route_paths(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.path).chain(self.aliases.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use domain::scope::Permission::{Ask, Files, Machine, Read};

    use super::*;

    #[test]
    fn find_by_route_ignores_trailing_slash() {
        let id = |method, path| Operation::find_by_route(&method, path).map(|one| one.id);
        assert_eq!(id(Method::GET, "/api/v1/directories/"), Some("listHomeDirectory"));
        assert_eq!(id(Method::POST, "/api/v1/directories/"), Some("createDirectory"));
        assert_eq!(id(Method::HEAD, "/api/v1/files/{*path}"), Some("downloadFile"));
        assert_eq!(id(Method::DELETE, "/api/v1/files"), Some("deleteFile"));
        assert_eq!(id(Method::POST, "/api/v1/files/"), Some("uploadFile"));
        assert_eq!(id(Method::PUT, "/api/v1/files"), None);
        assert_eq!(id(Method::GET, "/api/v1/nothing"), None);
    }

    #[test]
    fn operation_needs_match_scopes() {
        let allowed = |permission| {
            let needed = |one: &&Operation| one.needs.contains(&permission);
            OPERATIONS.iter().filter(needed).map(|one| one.id).collect::<Vec<_>>()
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
            "replyToCall",
        ];
        assert_eq!(allowed(Ask), ask);
        assert!(allowed(Files).iter().skip(1).all(|id| id.contains("File") || id.contains("Directory")));
        assert!(allowed(Read).iter().all(|id| {
            id.starts_with("get")
                || id.starts_with("list")
                || id.starts_with("stream")
                || *id == "collectAnswer"
        }));
        assert!(OPERATIONS.iter().all(|one| !one.needs.is_empty()));
    }
}

//! Lists in pages: the parameters `after`, `limit` and `order` of OpenAI's lists, and the form of a page.

use domain::excerpt::Excerpt;
use serde_json::{Value, json};

use crate::error::{OpenAiError, OpenAiResult};

/// The number of entries of a page that names none, and the largest one. Larger numbers get the largest page.
const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 1_000;

/// The page that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageQuery {
    /// The id of the entry before the page.
    pub(crate) after: Option<String>,
    pub(crate) limit: usize,
    /// True for the oldest entry first.
    pub(crate) is_ascending: bool,
}

impl PageQuery {
    /// Parses a query, whose other parameters are ignored.
    ///
    /// # Errors
    /// [`OpenAiError`] that names the wrong parameter.
    pub(crate) fn parse(query: Option<&str>) -> OpenAiResult<Self> {
        let mut page = Self { after: None, limit: LIMIT_DEFAULT, is_ascending: false };
        for (name, value) in query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "after" if !value.is_empty() => page.after = Some(value.to_owned()),
                "limit" => {
                    let limit = value.parse::<usize>().ok().filter(|limit| *limit > 0);
                    let message = "limit is not a number of entries: send 1 or more";
                    let limit = limit.ok_or_else(|| OpenAiError::invalid_field("limit", message))?;
                    page.limit = limit.min(LIMIT_MAX);
                }
                "order" if matches!(value, "asc" | "desc") => page.is_ascending = value == "asc",
                "order" => return Err(OpenAiError::invalid_field("order", "order is asc or desc")),
                _ => {}
            }
        }
        Ok(page)
    }

    /// Cuts the page out of all entries, which are given with the oldest first.
    ///
    /// # Errors
    /// [`OpenAiError`] if no entry has the id before the page.
    pub(crate) fn page_of(&self, mut entries: Vec<Value>) -> OpenAiResult<Value> {
        if !self.is_ascending {
            entries.reverse();
        }
        let from = match &self.after {
            None => 0,
            Some(after) => {
                let found = entries.iter().position(|entry| entry["id"] == after.as_str());
                1 + found.ok_or_else(|| no_such_entry(after))?
            }
        };
        let has_more = entries.len() - from > self.limit;
        Ok(list_body(entries.into_iter().skip(from).take(self.limit).collect(), has_more))
    }
}

/// Creates the error for an id that is not in the list.
pub(crate) fn no_such_entry(after: &str) -> OpenAiError {
    let message = format!("the list has no entry with the id {}", Excerpt(after));
    OpenAiError::invalid_field("after", message)
}

/// Returns a page.
pub(crate) fn list_body(entries: Vec<Value>, has_more: bool) -> Value {
    let id_of = |entry: Option<&Value>| entry.map(|entry| entry["id"].clone());
    let (first, last) = (id_of(entries.first()), id_of(entries.last()));
    json!({"object": "list", "data": entries, "first_id": first, "last_id": last, "has_more": has_more})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(page: &Value) -> Vec<&str> {
        page["data"].as_array().expect("entries").iter().filter_map(|entry| entry["id"].as_str()).collect()
    }

    #[test]
    fn pages_follow_one_another() {
        let entries: Vec<Value> = ["a", "b", "c"].iter().map(|id| json!({"id": id})).collect();
        let page = |query: &str| PageQuery::parse(Some(query)).and_then(|page| page.page_of(entries.clone()));
        let first = page("limit=2").expect("a page");
        assert_eq!((ids(&first), &first["has_more"]), (vec!["c", "b"], &json!(true)));
        assert_eq!((&first["first_id"], &first["last_id"]), (&json!("c"), &json!("b")));
        let second = page("limit=2&after=b").expect("a page");
        assert_eq!((ids(&second), &second["has_more"]), (vec!["a"], &json!(false)));
        assert_eq!(ids(&page("order=asc&after=a&include[]=x").expect("a page")), ["b", "c"]);
        assert_eq!(page("after=a").expect("a page")["first_id"], Value::Null);
        assert_eq!(ids(&page("limit=100000").expect("a page")).len(), 3);
    }

    #[test]
    fn wrong_parameters_are_named() {
        for (query, param) in [("limit=0", "limit"), ("limit=x", "limit"), ("order=up", "order")] {
            let error = PageQuery::parse(Some(query)).expect_err(query).to_value();
            assert_eq!(error["param"], param);
        }
        let missing = PageQuery::parse(Some("after=x")).and_then(|page| page.page_of(Vec::new()));
        assert_eq!(missing.expect_err("an error").to_value()["param"], "after");
    }
}

//! Renders the schema as an HTML page without external resources. It is complete without its script, which adds tabs,
//! search, and trying calls.

mod errors;
mod guides;
mod operations;
mod placed_operation;
mod samples;
mod shapes;
#[cfg(test)]
mod tests;
mod text;
mod try_it;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::openapi::OpenApi;

use self::text::{Description, DescriptionLine, Plain};

const STYLE: &str = include_str!("page.css");
/// The page's script, at `/docs/page.js`.
pub(super) const SCRIPT: &str = include_str!("page.js");

/// The bar at the top. Controls that need the script are hidden without it.
const BAR: &str = "<header class=\"bar\"><a class=\"brand\" href=\"#top\">Causerie</a>\
    <button id=\"menu\" type=\"button\" aria-expanded=\"false\" aria-controls=\"contents\" data-scripted hidden>Menu</button>\
    <input id=\"search\" type=\"search\" placeholder=\"Search ( / )\" aria-label=\"Search\" autocomplete=\"off\" data-scripted hidden>\
    <form id=\"key-form\" autocomplete=\"off\" data-scripted hidden><input id=\"key\" type=\"password\" placeholder=\"Key to try calls: api-…\" aria-label=\"API key, kept in this page only\" \
    title=\"Kept in this page only\" autocomplete=\"off\" spellcheck=\"false\"></form>\
    <button id=\"theme\" type=\"button\" aria-label=\"Light or dark\" title=\"Light or dark\" data-scripted hidden>◐</button></header>";

/// The document, also as JSON, which does not preserve the order of fields.
struct DocumentationPage<'a> {
    document: &'a OpenApi,
    json: Value,
}

/// Renders the document as a page.
pub(super) fn render_page(document: &OpenApi) -> String {
    let json = serde_json::to_value(document).expect("the schema holds nothing that JSON cannot");
    DocumentationPage { document, json }.render_html()
}

/// Returns the content security policy of the page: its own style, scripts and calls of the same host, and no HTML made by
/// the script.
pub(super) fn content_security_policy() -> String {
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; script-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

impl DocumentationPage<'_> {
    fn render_html(&self) -> String {
        let info = &self.document.info;
        let mut out = format!(
            "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\"><title>{0}: the interface</title>\
             <style>{STYLE}</style><script src=\"/docs/page.js\" defer></script></head><body>{BAR}{1}\
             <main><header id=\"top\" class=\"operation\"><div class=\"text\"><h1>{0} <small>{2}</small></h1>{3}\
             <p>The same for programs: <a href=\"/openapi.yaml\">openapi.yaml</a>, \
             <a href=\"/openapi.json\">openapi.json</a>. In the calls below, <code>$URL</code> is where the service is, \
             <code>$KEY</code> your key, and <code>client</code> a client of the package <code>causerie</code>.</p></div><div class=\"example\">{4}</div></header>",
            Plain(&info.title),
            self.render_contents(),
            Plain(&info.version),
            Description(info.description.as_deref().unwrap_or_default()),
            samples::render_overview(),
        );
        out.push_str(&guides::render_guides());
        for tag in self.document.tags.iter().flatten() {
            let description = tag.description.as_deref().unwrap_or_default();
            let _ = write!(
                out,
                "<section id=\"tag-{0}\"><h2>{0}</h2><p>{1}.</p>",
                Plain(&tag.name),
                DescriptionLine(description)
            );
            for operation in self.of_tag(&tag.name) {
                out.push_str(&self.render_operation(&operation));
            }
            out.push_str("</section>");
        }
        let _ = write!(out, "<section id=\"schemas\"><h2>Schemas</h2>{}</section>", self.render_schemas());
        out.push_str("</main></body></html>\n");
        out
    }

    fn render_contents(&self) -> String {
        let mut out = String::from(
            "<nav id=\"contents\" aria-label=\"Contents\"><p id=\"none\" hidden>Nothing found</p>",
        );
        out.push_str(&guides::render_guide_contents());
        for tag in self.document.tags.iter().flatten() {
            let _ = write!(out, "<a href=\"#tag-{0}\"><b>{0}</b></a><ul>", Plain(&tag.name));
            for one in self.of_tag(&tag.name) {
                let _ = write!(
                    out,
                    "<li><a href=\"#{0}\" title=\"{1} {2}\"><b class=\"{1}\">{1}</b> {3}</a></li>",
                    Plain(one.id()),
                    one.method,
                    Plain(one.path),
                    Plain(one.summary())
                );
            }
            out.push_str("</ul>");
        }
        out.push_str("<a href=\"#schemas\"><b>Schemas</b></a><ul>");
        for name in self.document.components.iter().flat_map(|components| components.schemas.keys()) {
            let _ = write!(out, "<li><a href=\"#schema-{0}\">{0}</a></li>", Plain(name));
        }
        out.push_str("</ul></nav>");
        out
    }
}

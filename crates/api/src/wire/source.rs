//! Sources and citations of an answer (section 2.10).

use domain::citation::PassagePlace;
use serde::Serialize;
use utoipa::ToSchema;

use super::enums::{FileSourceType, UrlSourceType};

/// A source that a part of the answer cites.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Citation<'a> {
    /// The identifier of the citation, which is also in its link in `content`.
    #[schema(examples("c1"))]
    citation_id: String,
    source: Source<'a>,
    /// True if the passage supports every sentence that cites it. Absent until the text is finished, or if unchecked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false, examples(true))]
    verified: Option<bool>,
    /// Why the citation is not verified, such as a number that the passage does not contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, examples("the passage does not contain the number 30"))]
    reason: Option<String>,
}

/// The place of a source, tagged by its `type`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "type", mapping(
    ("FILE" = "#/components/schemas/FileSource"),
    ("URL" = "#/components/schemas/UrlSource"),
)))]
pub(crate) enum Source<'a> {
    File(FileSource<'a>),
    Url(UrlSource<'a>),
}

/// A place in a workspace file.
#[derive(Serialize, ToSchema)]
pub(crate) struct FileSource<'a> {
    #[schema(inline)]
    r#type: FileSourceType,
    /// The file in the workspace.
    #[schema(examples("/uploads/lease.pdf"))]
    path: &'a str,
    /// The page, from 1, if the file has pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false, minimum = 1, examples(3))]
    page: Option<u32>,
    /// The first and the last line, from 1, if the file has lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<u32>, required = false, min_items = 2, max_items = 2, examples(12))]
    lines: Option<(u32, u32)>,
    /// The name of the page, if it has one: of a sheet, a file in an archive, or a file attached to the document.
    #[serde(rename = "pageName", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, examples("offers/2025.pdf, page 2"))]
    page_name: Option<&'a str>,
}

/// A page of the web.
#[derive(Serialize, ToSchema)]
pub(crate) struct UrlSource<'a> {
    #[schema(inline)]
    r#type: UrlSourceType,
    /// Where it is.
    #[schema(format = "uri", examples("https://example.org/rent"))]
    url: &'a str,
    /// Its title.
    #[schema(examples("When rent is due"))]
    title: &'a str,
}

impl<'a> From<&'a live::SnapshotCitation> for Citation<'a> {
    fn from(citation: &'a live::SnapshotCitation) -> Self {
        Self {
            citation_id: citation.wire_id(),
            source: Source::from(&citation.place),
            verified: citation.verified,
            reason: citation.reason.as_ref().map(ToString::to_string),
        }
    }
}

impl<'a> From<&'a PassagePlace> for Source<'a> {
    fn from(place: &'a PassagePlace) -> Self {
        match place {
            PassagePlace::File { path, page, lines, page_name } => Self::File(FileSource {
                r#type: FileSourceType,
                path,
                page: *page,
                lines: *lines,
                page_name: page_name.as_deref(),
            }),
            PassagePlace::Web { url, title } => Self::Url(UrlSource { r#type: UrlSourceType, url, title }),
        }
    }
}

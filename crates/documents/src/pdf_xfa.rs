//! Forms of PDFs that a program lays out when it opens them (dynamic XFA): their pages only advise to use another viewer. The
//! texts and fields of the form are read in their order, with the values that were filled in.

use std::collections::{HashMap, VecDeque};

use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Name, Stream};
use quick_xml::events::{BytesStart, Event};

use super::xml::{attribute_value, event_text, push_within, read_events};
use super::{OUTPUT_MAX_BYTES, text};

/// The maximum number of bytes of a form's description and of its data, unpacked, and the maximum number of streams
/// that they lie in.
const FORM_MAX_BYTES: usize = 32 * 1024 * 1024;
const STREAMS_MAX: usize = 100;
/// The maximum number of texts and fields of a form, and the maximum number of values.
const ITEMS_MAX: usize = 50_000;
/// The maximum text length of a field, of its caption and of its value, in bytes.
const TEXT_MAX_BYTES: usize = 64 * 1024;
/// The maximum depth of the names that a value is found by.
const DEPTH_MAX: usize = 64;
/// The maximum depth of the element with the description, and of the element with the values: deeper elements with these
/// names are settings.
const PACKET_DEPTH_MAX: usize = 2;
/// The maximum number of pages that are searched for fields, and the maximum number of notes and fields of one.
const PAGES_LOOKED_AT_MAX: usize = 10;
const NOTES_MAX: usize = 1_000;
/// The maximum number of choices of a field.
const CHOICES_MAX: usize = 2_000;
/// The name of the viewer that the page of such a form asks for.
const VIEWER: &str = "Adobe";

/// The text that a form shows, and true if it is incomplete.
pub(super) struct FormText {
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Returns the text of a form that is laid out when it is opened; `None` if the document is not such a form. `page` is the text
/// of the first page.
pub(super) fn form_text(document: &Pdf, page: &str) -> Option<FormText> {
    let root: Dict<'_> = document.xref().get(document.xref().root_id())?;
    let form = root.get::<Dict<'_>>("AcroForm")?;
    if !form.contains_key("XFA") {
        return None;
    }
    let is_placeholder = || document.pages().len() == 1 && page.contains(VIEWER) && !has_fields(document);
    if root.get::<bool>("NeedsRendering") != Some(true) && !is_placeholder() {
        return None;
    }
    let (source, mut is_cut) = read_form_xml(&form);
    let mut reader = FormReader::default();
    let read = read_events(text::decode_text(&source).as_bytes(), |event| reader.read_event(event));
    is_cut |= read.is_err() || reader.is_cut;
    let (text, is_long) = reader.into_lines();
    Some(FormText { text, is_cut: is_cut || is_long })
}

/// Returns true if fields lie on the pages.
fn has_fields(document: &Pdf) -> bool {
    let is_field =
        |note: &Dict<'_>| note.get::<Name<'_>>("Subtype").is_some_and(|kind| kind.as_str() == "Widget");
    let pages = document.pages().iter().take(PAGES_LOOKED_AT_MAX);
    let mut notes = pages.filter_map(|page| page.raw().get::<Array<'_>>("Annots"));
    notes.any(|notes| notes.iter::<Dict<'_>>().take(NOTES_MAX).any(|note| is_field(&note)))
}

/// Returns the XML of a form, which may lie in several streams one after another, and true if it is incomplete.
fn read_form_xml(form: &Dict<'_>) -> (Vec<u8>, bool) {
    let streams: Vec<Stream<'_>> = match (form.get::<Stream<'_>>("XFA"), form.get::<Array<'_>>("XFA")) {
        (Some(stream), _) => vec![stream],
        (None, Some(packets)) => {
            // Alternating names and streams.
            let packets = packets.iter::<hayro_interpret::hayro_syntax::object::Object<'_>>();
            packets.take(2 * STREAMS_MAX).filter_map(|packet| packet.into_stream()).collect()
        }
        (None, None) => Vec::new(),
    };
    let (mut source, mut is_cut) = (Vec::new(), false);
    for stream in streams {
        let Ok(part) = stream.decoded() else {
            is_cut = true;
            continue;
        };
        if source.len() + part.len() > FORM_MAX_BYTES {
            is_cut = true;
            break;
        }
        source.extend_from_slice(&part);
    }
    (source, is_cut)
}

/// A text or a field of a form.
#[derive(Debug, Default)]
struct XfaItem {
    is_field: bool,
    /// True for a box that is checked or not.
    is_box: bool,
    /// The names by which its value is found, without and with the surrounding names.
    name: String,
    path: String,
    /// The path of the group of boxes that allows one checked box.
    group: Option<String>,
    caption: String,
    hint: String,
    value: String,
    /// The choices as shown, and as stored.
    shown: Vec<String>,
    kept: Vec<String>,
}

/// The part of a text or field that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XfaPart {
    Caption,
    Value,
    Hint,
    Shown,
    Kept,
}

/// A value that was filled in.
#[derive(Debug)]
struct FilledValue {
    path: String,
    name: String,
    text: String,
    is_used: bool,
}

/// Reads the description of a form and its values.
#[derive(Debug, Default)]
struct FormReader {
    depth: usize,
    /// The depth of the element with the description, and of the element with the values.
    template: Option<usize>,
    in_datasets: bool,
    data: Option<usize>,
    /// The depth of an element that is left out.
    left_out: Option<usize>,
    /// The names around the present place, with their depths; true for a group of boxes.
    names: Vec<(usize, String, bool)>,
    item: Option<(usize, XfaItem)>,
    part: Option<(usize, XfaPart)>,
    in_text: bool,
    items: Vec<XfaItem>,
    values: Vec<FilledValue>,
    /// The value that is being read: its depth and its text.
    value: Option<(usize, String)>,
    /// The depth of the layout of that value.
    layout: Option<usize>,
    is_cut: bool,
}

impl FormReader {
    fn read_event(&mut self, event: &Event<'_>) -> bool {
        match event {
            Event::Start(element) => {
                self.depth += 1;
                self.start_element(element);
            }
            Event::Empty(element) => {
                self.depth += 1;
                self.start_element(element);
                self.end_element(element.local_name().as_ref());
                self.depth -= 1;
            }
            Event::End(element) => {
                self.end_element(element.local_name().as_ref());
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {
                if self.left_out.is_none()
                    && let Some(text) = event_text(event)
                {
                    self.push_text(&text);
                }
            }
        }
        let is_full = self.items.len() > ITEMS_MAX || self.values.len() > ITEMS_MAX;
        self.is_cut |= is_full;
        !is_full
    }

    fn start_element(&mut self, element: &BytesStart<'_>) {
        let name = element.local_name();
        let name = name.as_ref();
        if self.left_out.is_some() {
            return;
        }
        if self.data.is_some() {
            return self.start_value(name);
        }
        if self.template.is_none() {
            match name {
                "template" if self.depth <= PACKET_DEPTH_MAX => self.template = Some(self.depth),
                "datasets" if self.depth <= PACKET_DEPTH_MAX => self.in_datasets = true,
                "data" if self.in_datasets => self.data = Some(self.depth),
                _ => {}
            }
            return;
        }
        let is_hidden = || {
            let presence = attribute_value(element, "presence").unwrap_or_default();
            matches!(presence.as_str(), "hidden" | "invisible" | "inactive")
        };
        match name {
            "event" | "calculate" | "validate" | "bind" | "script" | "desc" | "extras" | "proto" => {
                self.left_out = Some(self.depth);
            }
            "subform" | "exclGroup" | "area" | "draw" | "field" | "caption" if is_hidden() => {
                self.left_out = Some(self.depth);
            }
            "subform" | "exclGroup" if self.names.len() < DEPTH_MAX => {
                let own = attribute_value(element, "name").unwrap_or_default();
                self.names.push((self.depth, own, name == "exclGroup"));
            }
            "draw" | "field" if self.item.is_none() => self.start_item(element, name == "field"),
            "caption" => self.begin_part(XfaPart::Caption),
            "value" if self.part.is_none() => self.begin_part(XfaPart::Value),
            "toolTip" => self.begin_part(XfaPart::Hint),
            "items" => {
                let is_kept = attribute_value(element, "save").as_deref() == Some("1");
                self.begin_part(if is_kept { XfaPart::Kept } else { XfaPart::Shown });
            }
            "checkButton" => self.item.iter_mut().for_each(|(_, item)| item.is_box = true),
            "text" | "integer" | "decimal" | "float" | "date" | "time" | "dateTime" | "exData"
            | "boolean" => {
                self.begin_text();
            }
            "br" | "p" | "li" => self.push_text(" "),
            _ => {}
        }
    }

    fn start_item(&mut self, element: &BytesStart<'_>, is_field: bool) {
        let name = attribute_value(element, "name").unwrap_or_default();
        let (around, is_in_group) = self.current_path();
        let path = format!("{around}/{name}");
        let group = is_in_group.then_some(around);
        self.item = Some((self.depth, XfaItem { is_field, name, path, group, ..XfaItem::default() }));
    }

    /// Returns the names around the present place, and true inside a group of boxes.
    fn current_path(&self) -> (String, bool) {
        let names: Vec<&str> =
            self.names.iter().map(|(_, name, _)| name.as_str()).filter(|name| !name.is_empty()).collect();
        (names.join("/"), self.names.last().is_some_and(|(_, _, is_group)| *is_group))
    }

    fn begin_part(&mut self, part: XfaPart) {
        if self.item.is_some() {
            self.part = Some((self.depth, part));
            self.in_text = part == XfaPart::Hint;
        }
    }

    fn begin_text(&mut self) {
        let (Some((_, part)), Some((_, item))) = (self.part, &mut self.item) else { return };
        let choices = match part {
            XfaPart::Shown => &mut item.shown,
            XfaPart::Kept => &mut item.kept,
            XfaPart::Caption | XfaPart::Value | XfaPart::Hint => {
                self.in_text = true;
                return;
            }
        };
        if choices.len() < CHOICES_MAX {
            choices.push(String::new());
            self.in_text = true;
        }
    }

    fn start_value(&mut self, name: &str) {
        // A value with its layout is one.
        if name == "body" && self.value.is_some() {
            self.layout.get_or_insert(self.depth);
        }
        if let (Some(_), Some((_, value))) = (self.layout, &mut self.value) {
            push_within(value, " ", TEXT_MAX_BYTES);
            return;
        }
        if self.names.len() < DEPTH_MAX {
            self.names.push((self.depth, name.to_owned(), false));
        }
        self.value = Some((self.depth, String::new()));
    }

    fn push_text(&mut self, text: &str) {
        if let Some((_, value)) = &mut self.value {
            self.is_cut |= !push_within(value, text, TEXT_MAX_BYTES);
            return;
        }
        let (true, Some((_, part)), Some((_, item))) = (self.in_text, self.part, &mut self.item) else {
            return;
        };
        let target = match part {
            XfaPart::Caption => Some(&mut item.caption),
            XfaPart::Value => Some(&mut item.value),
            XfaPart::Hint => Some(&mut item.hint),
            XfaPart::Shown => item.shown.last_mut(),
            XfaPart::Kept => item.kept.last_mut(),
        };
        if let Some(target) = target {
            push_within(target, text, TEXT_MAX_BYTES);
        }
    }

    fn end_element(&mut self, name: &str) {
        let depth = self.depth;
        if let Some(left_out) = self.left_out {
            if left_out >= depth {
                self.left_out = None;
            }
            return;
        }
        if let Some(data) = self.data {
            return self.end_value(data, name);
        }
        if self.part.is_some_and(|(at, _)| at >= depth) {
            (self.part, self.in_text) = (None, false);
        } else if matches!(name, "text" | "exData") {
            self.in_text = false;
        }
        if self.item.as_ref().is_some_and(|(at, _)| *at >= depth) {
            self.items.extend(self.item.take().map(|(_, item)| item));
            self.part = None;
        }
        self.names.retain(|(at, ..)| *at < depth);
        if self.template.is_some_and(|at| at >= depth) {
            self.template = None;
            self.names.clear();
        }
    }

    fn end_value(&mut self, data: usize, name: &str) {
        let depth = self.depth;
        if let Some(layout) = self.layout.filter(|_| depth > data) {
            if layout >= depth {
                self.layout = None;
            }
            return;
        }
        if let Some((_, text)) = self.value.take_if(|(at, _)| *at >= depth)
            && !text.trim().is_empty()
        {
            self.values.push(FilledValue {
                path: self.current_path().0,
                name: name.to_owned(),
                text,
                is_used: false,
            });
        }
        self.names.retain(|(at, ..)| *at < depth);
        if data >= depth {
            (self.data, self.in_datasets, self.layout) = (None, false, None);
            self.names.clear();
        }
    }

    /// Returns the lines of the form, and true if they are incomplete.
    fn into_lines(mut self) -> (String, bool) {
        let mut values = XfaValues::from_filled(&mut self.values);
        let (mut lines, mut is_cut) = (String::new(), false);
        let mut add = |line: &str| {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            let line: String = line.chars().filter(|letter| !letter.is_control()).collect();
            if !line.is_empty() && !is_cut {
                is_cut = lines.len() + line.len() >= OUTPUT_MAX_BYTES;
                if !is_cut {
                    lines.push_str(&line);
                    lines.push('\n');
                }
            }
        };
        let mut chosen = HashMap::new();
        for item in &self.items {
            add(&item.to_line(&mut values, &mut chosen));
        }
        for value in self.values.iter().filter(|value| !value.is_used) {
            add(&format!("{}: {}", value.name, value.text));
        }
        lines.truncate(lines.trim_end().len());
        (lines, is_cut)
    }
}

/// The values that were filled in, by their paths and by their names, in their order.
struct XfaValues<'a> {
    all: &'a mut Vec<FilledValue>,
    by_path: HashMap<String, VecDeque<usize>>,
    by_name: HashMap<String, VecDeque<usize>>,
}

impl<'a> XfaValues<'a> {
    fn from_filled(all: &'a mut Vec<FilledValue>) -> Self {
        let (mut by_path, mut by_name) = (HashMap::<_, VecDeque<_>>::new(), HashMap::<_, VecDeque<_>>::new());
        for (at, value) in all.iter().enumerate() {
            by_path.entry(value.path.clone()).or_default().push_back(at);
            by_name.entry(value.name.clone()).or_default().push_back(at);
        }
        Self { all, by_path, by_name }
    }

    /// Takes the next value of a field.
    fn take_value(&mut self, path: &str, name: &str) -> Option<String> {
        let next = |places: Option<&mut VecDeque<usize>>, all: &[FilledValue]| {
            let places = places?;
            while let Some(at) = places.pop_front() {
                if !all.get(at)?.is_used {
                    return Some(at);
                }
            }
            None
        };
        let at = next(self.by_path.get_mut(path), self.all)
            .or_else(|| next(self.by_name.get_mut(name), self.all))?;
        let value = self.all.get_mut(at)?;
        value.is_used = true;
        Some(value.text.clone())
    }
}

impl XfaItem {
    /// Writes the item on one line; nothing for a field without a caption and value.
    fn to_line(&self, values: &mut XfaValues<'_>, chosen: &mut HashMap<String, String>) -> String {
        if !self.is_field {
            return self.value.clone();
        }
        let caption =
            [&self.caption, &self.hint].into_iter().map(|text| text.trim()).find(|text| !text.is_empty());
        if let Some(group) = &self.group {
            let name = group.rsplit('/').next().unwrap_or(group);
            let of_group = chosen
                .entry(group.clone())
                .or_insert_with(|| values.take_value(group, name).unwrap_or_default());
            let is_checked =
                self.shown_choices().any(|(_, kept)| !of_group.trim().is_empty() && kept == of_group.trim());
            return checkbox_line(is_checked, caption.unwrap_or(&self.name));
        }
        let value = values.take_value(&self.path, &self.name).unwrap_or_else(|| self.value.clone());
        let value = value.trim();
        if self.is_box {
            // The first of its values is the checked one's.
            let first = self.shown_choices().next().map_or("1", |(_, kept)| kept);
            return checkbox_line(value == first, caption.unwrap_or(&self.name));
        }
        let shown = self.shown_choices().find(|(_, kept)| *kept == value).map_or(value, |(shown, _)| shown);
        match caption {
            None if shown.is_empty() => String::new(),
            None => format!("{}: {shown}", self.name),
            Some(caption) if caption.ends_with([':', '?']) => format!("{caption} {shown}"),
            Some(caption) => format!("{caption}: {shown}"),
        }
    }

    /// Returns the choices as shown and as stored.
    fn shown_choices(&self) -> impl Iterator<Item = (&str, &str)> {
        let kept = if self.kept.is_empty() { &self.shown } else { &self.kept };
        let shown = if self.shown.is_empty() { kept } else { &self.shown };
        shown.iter().map(|text| text.trim()).zip(kept.iter().map(|text| text.trim()))
    }
}

/// Writes a box with its caption.
fn checkbox_line(is_checked: bool, caption: &str) -> String {
    format!("{} {caption}", if is_checked { "☒" } else { "☐" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_form(xml: &str) -> String {
        let mut reader = FormReader::default();
        read_events(xml.as_bytes(), |event| reader.read_event(event)).expect("it is XML");
        reader.into_lines().0
    }

    const TEMPLATE: &str = "<template><subform name='form'><pageSet/><draw><value><text>Application for a lease</text></value></draw>\
        <draw presence='hidden'><value><text>Secret</text></value></draw>\
        <draw><value><exData contentType='text/html'><body><p>First<span>s </span>second</p></body></exData></value></draw>\
        <subform name='tenant'><field name='name'><caption><value><text>Name:</text></value></caption><ui><textEdit/></ui>\
        <event><script>var x = 'no';</script></event></field>\
        <field name='born'><caption><value><text>Date of birth</text></value></caption></field>\
        <field name='country'><items><text>Austria</text><text>Czechia</text></items>\
        <items save='1'><text>AT</text><text>CZ</text></items><assist><toolTip>Country</toolTip></assist></field></subform>\
        <field name='pets'><ui><checkButton/></ui><caption><value><text>Pets</text></value></caption>\
        <items><integer>1</integer><integer>0</integer></items></field>\
        <exclGroup name='term'><field><items><text>y</text></items><caption><value><text>A year</text></value></caption></field>\
        <field><items><text>o</text></items><caption><value><text>Open</text></value></caption></field></exclGroup>\
        <subform name='row'><field name='item'/></subform></subform></template>";

    #[test]
    fn xfa_form_values_in_order() {
        let data = "<datasets><data><form><tenant><name><body><p>Jana &amp;</p><p>Petr</p></body></name><born/><country>CZ</country></tenant><pets>1</pets>\
                    <term>o</term><row><item>Table</item></row><row><item>Chair</item></row><a>1</a></form></data></datasets>";
        assert_eq!(
            read_form(&format!("<xdp>{TEMPLATE}{data}</xdp>")),
            "Application for a lease\nFirsts second\nName: Jana & Petr\nDate of birth:\nCountry: Czechia\n☒ Pets\n\
             ☐ A year\n☒ Open\nitem: Table\nitem: Chair\na: 1"
        );
        assert!(
            read_form(&format!("<xdp>{data}{TEMPLATE}</xdp>")).contains("Name: Jana & Petr\n"),
            "in any order"
        );
    }

    #[test]
    fn an_empty_form_has_its_texts() {
        let text = read_form(TEMPLATE);
        assert!(text.contains("Name:\nDate of birth:\nCountry:\n☐ Pets\n☐ A year"), "{text}");
    }

    #[test]
    fn odd_forms_end() {
        let deep = format!(
            "<template>{}<field name='a'>{}",
            "<subform name='s'>".repeat(20_000),
            "<value>".repeat(20_000)
        );
        assert_eq!(read_form(&deep), "");
        assert_eq!(read_form("</a></b><data></data></data><field/>"), "");
        let many = format!("<template>{}</template>", "<field name='a'/>".repeat(ITEMS_MAX + 10));
        assert_eq!(read_form(&many), "");
    }
}

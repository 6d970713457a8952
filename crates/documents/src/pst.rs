//! Reads the messages in data files of Outlook (PST) as files of an archive, each in the Internet's format, in the order of their folders.

use std::collections::HashSet;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use outlook_pst::ltp::prop_context::PropertyValue;
use outlook_pst::ltp::table_context::{TableContext, TableRowData};
use outlook_pst::messaging::attachment::{AnsiAttachment, Attachment, UnicodeAttachment};
use outlook_pst::messaging::folder::Folder;
use outlook_pst::messaging::message::{AnsiMessage, Message, UnicodeMessage};
use outlook_pst::messaging::store::{AnsiStore, EntryId, Store, UnicodeStore};
use outlook_pst::ndb::node_id::NodeId;
use outlook_pst::{AnsiPstFile, UnicodePstFile};

use super::container::{ArchivedFile, FileContainer};
use super::output::clean_line;
use super::{ExtractError, PAGES_MAX};

mod compressed_rtf;
mod eml;

pub(super) use compressed_rtf::decompress_rtf;

const FORMAT: &str = "Outlook";
/// The beginning of a file, and the file kind after a checksum.
const MAGIC: &[u8] = b"!BDN";
const PERSONAL: &[u8] = b"SM";
const OFFLINE: &[u8] = b"SO";
const KIND_AT: usize = 8;
/// The place of the version, and the version from which pages are larger.
const VERSION_AT: usize = 10;
const VERSION_WITH_LARGE_PAGES: u8 = 36;
/// The maximum number of folders, and their maximum depth.
const FOLDERS_MAX: usize = 2_000;
const FOLDER_DEPTH_MAX: usize = 30;
/// Properties of folders and of messages in their tables.
const NAME: u16 = 0x3001;
const SUBJECT: u16 = 0x0037;
const SIZE: u16 = 0x0e08;

/// Returns true for a data file of Outlook.
pub(super) fn is_pst(bytes: &[u8]) -> bool {
    let kind = bytes.get(KIND_AT..VERSION_AT);
    bytes.starts_with(MAGIC) && kind.is_some_and(|kind| [PERSONAL, OFFLINE].contains(&kind))
}

/// A data file whose messages are listed.
pub(super) struct DataFile {
    store: OpenStore,
    files: Vec<ArchivedFile>,
    /// The numbers of the messages in the data file.
    nodes: Vec<NodeId>,
    folders: HashSet<u32>,
    lacks_files: bool,
}

/// A data file of Outlook since 2003, or of an earlier one.
enum OpenStore {
    Unicode(Rc<UnicodeStore>),
    Ansi(Rc<AnsiStore>),
}

/// A message of a data file.
enum OpenMessage {
    Unicode(Rc<UnicodeMessage>),
    Ansi(Rc<AnsiMessage>),
}

impl DataFile {
    /// Opens a data file and lists its messages.
    ///
    /// # Errors
    /// Fails for kinds that are not read, and for a damaged one.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, ExtractError> {
        let is_offline = bytes.get(KIND_AT..VERSION_AT) == Some(OFFLINE);
        if is_offline || bytes.get(VERSION_AT).is_some_and(|version| *version >= VERSION_WITH_LARGE_PAGES) {
            return Err(ExtractError::Unsupported {
                kind: "an offline data file of Outlook (OST)",
                remedy: "export its messages as PST",
            });
        }
        catch_library_panic(|| {
            let broken = |error| ExtractError::broken_file(FORMAT, error);
            let store = OpenStore::from_bytes(bytes).map_err(broken)?;
            let top = store.as_store().properties().ipm_sub_tree_entry_id().map_err(broken)?;
            let top = store.as_store().open_folder(&top).map_err(broken)?;
            let mut file = Self {
                store,
                files: Vec::new(),
                nodes: Vec::new(),
                folders: HashSet::new(),
                lacks_files: false,
            };
            file.list_folder(&*top, "", 0);
            Ok(file)
        })
    }

    /// Lists the messages of a folder and of the folders in it.
    fn list_folder(&mut self, folder: &dyn Folder, path: &str, depth: usize) {
        let is_new = self.folders.insert(u32::from(folder.properties().node_id()));
        if !is_new || self.folders.len() > FOLDERS_MAX || depth > FOLDER_DEPTH_MAX {
            self.lacks_files = true;
            return;
        }
        for row in folder.contents_table().into_iter().flat_map(|table| table.rows_matrix()) {
            // One more shows that the limit is exceeded.
            if self.files.len() > PAGES_MAX as usize {
                return;
            }
            let table = folder.contents_table().map(Rc::as_ref);
            let cell = |property| table.and_then(|table| read_table_property(table, row, property));
            let subject = cell(SUBJECT).map(|subject| eml::value_to_subject(&subject)).unwrap_or_default();
            let subject = if subject.is_empty() { "unnamed".to_owned() } else { subject.replace('/', "-") };
            let bytes = match cell(SIZE) {
                Some(PropertyValue::Integer32(bytes)) => u64::try_from(bytes).unwrap_or(0),
                _ => 0,
            };
            let name = format!("{path}{subject}.eml");
            self.files.push(ArchivedFile { index: self.files.len(), name, bytes, is_encrypted: false });
            self.nodes.push(NodeId::from(u32::from(row.id())));
        }
        for row in folder.hierarchy_table().into_iter().flat_map(|table| table.rows_matrix()) {
            let inner = self.store.entry_id(NodeId::from(u32::from(row.id())));
            let Ok(inner) = inner.and_then(|entry| self.store.as_store().open_folder(&entry)) else {
                self.lacks_files = true;
                continue;
            };
            let name = inner.properties().get(NAME).map(eml::value_to_text).unwrap_or_default();
            let path = format!("{path}{}/", clean_line(&name).replace('/', "-"));
            self.list_folder(&*inner, &path, depth + 1);
        }
    }
}

impl FileContainer for DataFile {
    fn format_name(&self) -> &'static str {
        FORMAT
    }

    fn list_files(&mut self) -> Vec<ArchivedFile> {
        self.files.clone()
    }

    fn lacks_files(&self) -> bool {
        self.lacks_files
    }

    fn unpack_file(&mut self, index: usize) -> Result<Vec<u8>, ExtractError> {
        let node = *self
            .nodes
            .get(index)
            .ok_or_else(|| ExtractError::broken_file(FORMAT, "it has no such message"))?;
        catch_library_panic(|| {
            let message =
                self.store.open_message(node).map_err(|error| ExtractError::broken_file("message", error))?;
            eml::write_eml(&message)
        })
    }
}

impl OpenStore {
    fn from_bytes(bytes: &[u8]) -> std::io::Result<Self> {
        /// The first version whose texts are in Unicode.
        const UNICODE: u8 = 20;
        let reader = Box::new(Cursor::new(bytes.to_vec()));
        if bytes.get(VERSION_AT).is_some_and(|version| *version >= UNICODE) {
            return Ok(Self::Unicode(UnicodeStore::read(Rc::new(UnicodePstFile::read_from(reader)?))?));
        }
        Ok(Self::Ansi(AnsiStore::read(Rc::new(AnsiPstFile::read_from(reader)?))?))
    }

    fn as_store(&self) -> &dyn Store {
        match self {
            Self::Unicode(store) => &**store,
            Self::Ansi(store) => &**store,
        }
    }

    fn entry_id(&self, node: NodeId) -> std::io::Result<EntryId> {
        self.as_store().properties().make_entry_id(node)
    }

    fn open_message(&self, node: NodeId) -> std::io::Result<OpenMessage> {
        let entry = self.entry_id(node)?;
        Ok(match self {
            Self::Unicode(store) => {
                let message = UnicodeMessage::read(Rc::clone(store), &entry, Some(eml::PROPERTIES))?;
                OpenMessage::Unicode(message)
            }
            Self::Ansi(store) => {
                OpenMessage::Ansi(AnsiMessage::read(Rc::clone(store), &entry, Some(eml::PROPERTIES))?)
            }
        })
    }
}

impl OpenMessage {
    fn as_message(&self) -> &dyn Message {
        match self {
            Self::Unicode(message) => &**message,
            Self::Ansi(message) => &**message,
        }
    }

    fn open_attachment(&self, node: NodeId) -> std::io::Result<Rc<dyn Attachment>> {
        Ok(match self {
            Self::Unicode(message) => {
                UnicodeAttachment::read(Rc::clone(message), node, Some(eml::PROPERTIES))?
            }
            Self::Ansi(message) => AnsiAttachment::read(Rc::clone(message), node, Some(eml::PROPERTIES))?,
        })
    }
}

/// Returns the value of a property in a row; `None` if the row has none or it cannot be read.
fn read_table_property(table: &dyn TableContext, row: &TableRowData, property: u16) -> Option<PropertyValue> {
    let columns = table.context().columns();
    let place = columns.iter().position(|column| column.prop_id() == property)?;
    let mut values = row.columns(table.context()).ok()?;
    table.read_column(&values.get_mut(place)?.take()?, columns[place].prop_type()).ok()
}

/// Converts a panic of the library to an error, so that a damaged message does not end the reading of the others.
fn catch_library_panic<T>(read: impl FnOnce() -> Result<T, ExtractError>) -> Result<T, ExtractError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ExtractError::broken_file(FORMAT, "its parser gave up")))
}

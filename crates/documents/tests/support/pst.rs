//! Makes data files of Outlook: a folder with messages, each of a few properties and attachments.

/// A property of text, of a time, or of bytes.
#[derive(Clone)]
pub(crate) enum PstValue {
    Number(u32),
    Text(String),
    Time(i64),
    Bytes(Vec<u8>),
}

/// The number of a property with its value.
pub(crate) type Property = (u16, PstValue);

pub(crate) struct OutlookMessage {
    pub(crate) properties: Vec<Property>,
    /// The kind (1 for a recipient), the name and the address of each.
    pub(crate) recipients: Vec<(u32, &'static str, &'static str)>,
    pub(crate) attachments: Vec<Vec<Property>>,
}

pub(crate) fn text_property(property: u16, text: &str) -> Property {
    (property, PstValue::Text(text.to_owned()))
}

/// A message with a subject and a plain text.
pub(crate) fn outlook_message(subject: &str, text: &str) -> OutlookMessage {
    let properties =
        vec![text_property(0x001a, "IPM.Note"), text_property(0x0037, subject), text_property(0x1000, text)];
    OutlookMessage { properties, recipients: Vec::new(), attachments: Vec::new() }
}

pub(crate) fn attachment_properties(name: &str, content: &[u8]) -> Vec<Property> {
    vec![
        text_property(0x3707, name),
        (0x3701, PstValue::Bytes(content.to_vec())),
        (0x3705, PstValue::Number(1)),
    ]
}

/// The number of the first message, in the tree of nodes.
const FIRST_MESSAGE: u32 = 0x0020_0004;
const RECORD_KEY: [u8; 16] = [7; 16];
const STORE: u32 = 0x21;
const TOP: u32 = 0x8022;
const LETTERS: u32 = 0x8042;
const NUMBER: u16 = 0x0003;
const TEXT: u16 = 0x001f;

#[derive(Default)]
struct PstFile {
    content: Vec<u8>,
    blocks: Vec<(u64, u64, u16)>,
    nodes: Vec<(u32, u64, u64)>,
}

/// Makes a data file with messages in the folder `Letters`.
pub(crate) fn pst_file(messages: &[OutlookMessage]) -> Vec<u8> {
    let mut file = PstFile { content: vec![0; 0x4800], ..PstFile::default() };
    let entry = [&[0; 4][..], &RECORD_KEY, &TOP.to_le_bytes()].concat();
    let store = [
        (0x0ff9, PstValue::Bytes(RECORD_KEY.to_vec())),
        text_property(0x3001, "Birds"),
        (0x35e0, PstValue::Bytes(entry)),
    ];
    file.add_node(STORE, &build_properties(&store), 0);
    file.add_folder(TOP, "Top", &[(LETTERS, "Letters")], &[]);
    let numbered: Vec<(u32, &OutlookMessage)> =
        (0..).map(|at: u32| FIRST_MESSAGE + at * 32).zip(messages).collect();
    let rows: Vec<(u32, &str)> = numbered
        .iter()
        .map(|(node, message)| {
            let subject = message.properties.iter().find_map(|property| match property {
                (0x0037, PstValue::Text(subject)) => Some(subject.as_str()),
                _ => None,
            });
            (*node, subject.expect("it has a subject"))
        })
        .collect();
    file.add_folder(LETTERS, "Letters", &[], &rows);
    for (node, message) in numbered {
        let recipients: Vec<Vec<PstValue>> = message
            .recipients
            .iter()
            .map(|(kind, name, address)| {
                vec![
                    PstValue::Number(*kind),
                    PstValue::Text((*name).to_owned()),
                    PstValue::Text((*address).to_owned()),
                ]
            })
            .collect();
        let rows: Vec<(u32, Vec<PstValue>)> = (1..).zip(recipients).collect();
        let table = build_table(&[(0x0c15, NUMBER), (0x3001, TEXT), (0x39fe, TEXT)], &rows);
        let mut inner = vec![(0x692, file.add_block(&table, false))];
        let attached: Vec<u32> = (0..message.attachments.len())
            .map(|at| 0x8025 + 32 * u32::try_from(at).expect("it is short"))
            .collect();
        if !attached.is_empty() {
            let rows: Vec<(u32, Vec<PstValue>)> = attached.iter().map(|node| (*node, Vec::new())).collect();
            inner.push((0x671, file.add_block(&build_table(&[], &rows), false)));
        }
        for (node, attachment) in attached.iter().zip(&message.attachments) {
            inner.push((*node, file.add_block(&build_properties(attachment), false)));
        }
        inner.sort_unstable();
        let mut list =
            [&[2, 0][..], &u16::try_from(inner.len()).expect("it is short").to_le_bytes(), &[0; 4]].concat();
        for (node, block) in inner {
            list.extend([u64::from(node).to_le_bytes(), block.to_le_bytes(), [0; 8]].concat());
        }
        let list = file.add_block(&list, true);
        file.add_node(node, &build_properties(&message.properties), list);
    }
    file.into_bytes()
}

impl PstFile {
    fn add_node(&mut self, node: u32, content: &[u8], inner: u64) {
        let block = self.add_block(content, false);
        self.nodes.push((node, block, inner));
    }

    fn add_folder(&mut self, node: u32, name: &str, folders: &[(u32, &str)], messages: &[(u32, &str)]) {
        let count = PstValue::Number(u32::try_from(messages.len()).expect("it is short"));
        let list = [text_property(0x3001, name), (0x3602, count), (0x3603, PstValue::Number(0))];
        self.add_node(node, &build_properties(&list), 0);
        let rows = |rows: &[(u32, &str)]| -> Vec<(u32, Vec<PstValue>)> {
            rows.iter().map(|(node, text)| (*node, vec![PstValue::Text((*text).to_owned())])).collect()
        };
        self.add_node(node + 0xb, &build_table(&[(0x3001, TEXT)], &rows(folders)), 0);
        self.add_node(node + 0xc, &build_table(&[(0x0037, TEXT)], &rows(messages)), 0);
        self.add_node(node + 0xd, &build_table(&[(0x3001, TEXT)], &[]), 0);
    }

    fn add_block(&mut self, content: &[u8], is_internal: bool) -> u64 {
        let number = (u64::try_from(self.blocks.len()).expect("it is short") + 1) * 4
            + if is_internal { 2 } else { 0 };
        let at = self.content.len() as u64;
        let length = u16::try_from(content.len()).expect("it fits a block");
        assert!(length <= 8176, "it fits a block");
        self.content.extend(content);
        let end = (self.content.len() + 16).next_multiple_of(64);
        self.content.resize(end - 16, 0);
        self.content.extend(length.to_le_bytes());
        self.content.extend(block_signature(at, number).to_le_bytes());
        self.content.extend(pst_checksum(content).to_le_bytes());
        self.content.extend(number.to_le_bytes());
        self.blocks.push((number, at, length));
        number
    }

    /// Adds a page with the leaves of a tree. Returns its number and its place.
    fn add_page(&mut self, kind: u8, entries: &[Vec<u8>], most: u8, entry_bytes: u8) -> [u64; 2] {
        self.content.resize(self.content.len().next_multiple_of(512), 0);
        let (at, number) = (self.content.len() as u64, 4 * u64::from(kind));
        assert!(entries.len() <= usize::from(most), "they fit a page");
        let mut page = entries.concat();
        page.resize(488, 0);
        page.extend([u8::try_from(entries.len()).expect("it is short"), most, entry_bytes, 0, 0, 0, 0, 0]);
        let trailer = [
            &[kind, kind][..],
            &block_signature(at, number).to_le_bytes(),
            &pst_checksum(&page).to_le_bytes(),
        ];
        self.content.extend([&page[..], &trailer.concat(), &number.to_le_bytes()].concat());
        [number, at]
    }

    fn into_bytes(mut self) -> Vec<u8> {
        self.nodes.sort_unstable();
        let nodes: Vec<Vec<u8>> = self
            .nodes
            .iter()
            .map(|(node, block, inner)| [u64::from(*node), *block, *inner, 0].map(u64::to_le_bytes).concat())
            .collect();
        let blocks: Vec<Vec<u8>> = self
            .blocks
            .iter()
            .map(|(number, at, length)| {
                [&number.to_le_bytes()[..], &at.to_le_bytes(), &length.to_le_bytes(), &[2, 0, 0, 0, 0, 0]]
                    .concat()
            })
            .collect();
        let nodes = self.add_page(0x81, &nodes, 15, 32);
        let blocks = self.add_page(0x80, &blocks, 20, 24);
        let end = self.content.len() as u64;
        let root = [&[0; 4][..], &end.to_le_bytes(), &0x4400_u64.to_le_bytes(), &[0; 16]].concat();
        let trees = [nodes, blocks].concat().into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let head = [
            &b"SM"[..],
            &[23, 0, 19, 0, 1, 1],
            &[0; 16],
            &0x1000_u64.to_le_bytes(),
            &[1, 0, 0, 0],
            &[0; 128],
            &[0; 8],
            &root,
            &trees,
            &[2, 0, 0, 0],
            &[0; 4],
            &[0xff; 256],
            &[0x80, 0, 0, 0],
            &0x1000_u64.to_le_bytes(),
        ]
        .concat();
        assert_eq!(head.len(), 516);
        let head = [
            &b"!BDN"[..],
            &pst_checksum(&head[..471]).to_le_bytes(),
            &head,
            &pst_checksum(&head).to_le_bytes(),
        ];
        let head = head.concat();
        self.content[..head.len()].copy_from_slice(&head);
        self.content
    }
}

/// Renews all checksums of a file that was made here and then changed.
pub(crate) fn renew_checksums(file: &mut [u8]) {
    let number =
        |file: &[u8], at: usize| u64::from_le_bytes(*file[at..].first_chunk().expect("it has a number"));
    let blocks_at = file.len() - 512;
    for entry in (blocks_at..blocks_at + 488).step_by(24) {
        let at = usize::try_from(number(file, entry + 8)).unwrap_or(usize::MAX);
        let length = usize::try_from(number(file, entry + 16) & 0xffff).expect("16 bits");
        let end = at.saturating_add(length).saturating_add(16).next_multiple_of(64);
        if length > 0 && end <= blocks_at {
            let sum = pst_checksum(&file[at..at + length]).to_le_bytes();
            file[end - 12..end - 8].copy_from_slice(&sum);
        }
    }
    for page in [blocks_at - 512, blocks_at] {
        let sum = pst_checksum(&file[page..page + 496]).to_le_bytes();
        file[page + 500..page + 504].copy_from_slice(&sum);
    }
    for (length, at) in [(471, 4), (516, 524)] {
        let sum = pst_checksum(&file[8..8 + length]).to_le_bytes();
        file[at..at + 4].copy_from_slice(&sum);
    }
}

/// A heap of pieces, which are counted from 1.
fn build_heap(kind: u8, root: usize, pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut places = vec![12];
    for piece in pieces {
        places.push(places.last().expect("it is short") + u16::try_from(piece.len()).expect("it is short"));
    }
    let map = places.last().expect("it is short").next_multiple_of(2);
    let head = [&map.to_le_bytes()[..], &[0xec, kind], &heap_number(root).to_le_bytes(), &[0; 4]].concat();
    let mut out = [head, pieces.concat()].concat();
    out.resize(usize::from(map), 0);
    out.extend(u16::try_from(pieces.len()).expect("it is short").to_le_bytes());
    let empty = pieces.iter().filter(|piece| piece.is_empty()).count();
    out.extend(u16::try_from(empty).expect("it is short").to_le_bytes());
    out.extend(places.into_iter().flat_map(u16::to_le_bytes));
    out
}

fn heap_number(piece: usize) -> u32 {
    u32::try_from(piece).expect("it is short") << 5
}

fn value_bytes(value: &PstValue) -> Vec<u8> {
    match value {
        PstValue::Number(number) => number.to_le_bytes().to_vec(),
        PstValue::Text(text) => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        PstValue::Time(time) => time.to_le_bytes().to_vec(),
        PstValue::Bytes(bytes) => bytes.clone(),
    }
}

fn build_properties(list: &[Property]) -> Vec<u8> {
    let mut list = list.to_vec();
    list.sort_by_key(|(property, _)| *property);
    let mut pieces = vec![[&[0xb5, 2, 6, 0][..], &heap_number(2).to_le_bytes()].concat(), Vec::new()];
    for (property, value) in &list {
        let (kind, value) = match value {
            PstValue::Number(number) => (NUMBER, *number),
            PstValue::Text(_) | PstValue::Time(_) | PstValue::Bytes(_) => {
                pieces.push(value_bytes(value));
                let kind = match value {
                    PstValue::Text(_) => TEXT,
                    PstValue::Time(_) => 0x0040,
                    _ => 0x0102,
                };
                (kind, heap_number(pieces.len()))
            }
        };
        pieces[1].extend([&property.to_le_bytes()[..], &kind.to_le_bytes(), &value.to_le_bytes()].concat());
    }
    build_heap(0xbc, 1, &pieces)
}

/// A table with these columns, of four bytes each, after the number of the row and its version.
fn build_table(columns: &[(u16, u16)], rows: &[(u32, Vec<PstValue>)]) -> Vec<u8> {
    let mut all: Vec<(u16, u16, usize)> =
        columns.iter().enumerate().map(|(at, (property, kind))| (*property, *kind, at + 2)).collect();
    all.extend([(0x67f2, NUMBER, 0), (0x67f3, NUMBER, 1)]);
    all.sort_unstable();
    let end = u16::try_from(4 * all.len()).expect("it is short");
    let mut info = vec![0x7c, u8::try_from(all.len()).expect("it is short")];
    info.extend([end, end, end, end + 1].into_iter().flat_map(u16::to_le_bytes));
    let has_rows = !rows.is_empty();
    info.extend(
        [heap_number(2), if has_rows { heap_number(4) } else { 0 }, 0].into_iter().flat_map(u32::to_le_bytes),
    );
    for (property, kind, place) in &all {
        let place = u8::try_from(*place).expect("it is short");
        info.extend([kind.to_le_bytes(), property.to_le_bytes(), [4 * place, 0]].concat());
        info.extend([4, place]);
    }
    let index_root = if has_rows { heap_number(3) } else { 0 };
    let mut pieces = vec![info, [&[0xb5, 4, 4, 0][..], &index_root.to_le_bytes()].concat()];
    if has_rows {
        pieces.extend([Vec::new(), Vec::new()]);
    }
    for (number, (node, values)) in (0_u32..).zip(rows) {
        pieces[2].extend([node.to_le_bytes(), number.to_le_bytes()].concat());
        let mut row = [node.to_le_bytes(), 1_u32.to_le_bytes()].concat();
        for value in values {
            let cell = match value {
                PstValue::Number(number) => *number,
                _ => {
                    pieces.push(value_bytes(value));
                    heap_number(pieces.len())
                }
            };
            row.extend(cell.to_le_bytes());
        }
        row.resize(usize::from(end), 0);
        let there = u8::try_from(values.len() + 2).expect("it is short");
        row.push(0xff_u8 << (8 - there));
        pieces[3].extend(row);
    }
    build_heap(0x7c, 1, &pieces)
}

fn block_signature(at: u64, number: u64) -> u16 {
    let mixed = at ^ number;
    (((mixed >> 16) ^ mixed) & 0xffff) as u16
}

fn pst_checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

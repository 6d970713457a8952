//! Writes archives of files in the form that the kernel unpacks as its first root (`newc`).

use std::io::{self, Write};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
/// The name of the entry at the end.
const TRAILER: &str = "TRAILER!!!";

/// An archive that is being written. All its entries belong to root.
pub(crate) struct CpioArchive<W> {
    output: W,
    entries: u32,
}

impl<W: Write> CpioArchive<W> {
    pub(crate) const fn new(output: W) -> Self {
        Self { output, entries: 0 }
    }

    pub(crate) fn add_folder(&mut self, name: &str) -> io::Result<()> {
        self.write_entry(name, FOLDER, &[])
    }

    pub(crate) fn add_file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.write_entry(name, FILE, content)
    }

    pub(crate) fn add_program(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.write_entry(name, PROGRAM, content)
    }

    /// Ends the archive and returns the writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.write_entry(TRAILER, 0, &[])?;
        Ok(self.output)
    }

    fn write_entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_size = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        // Inode, mode, owner, group, links, time, size, two devices of two numbers, length of the name, check sum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        write!(self.output, "070701")?;
        for field in fields {
            write!(self.output, "{field:08x}")?;
        }
        write!(self.output, "{name}\0")?;
        const HEADER_BYTES: usize = 6 + 13 * 8;
        self.write_padding(HEADER_BYTES + name.len() + 1)?;
        self.output.write_all(content)?;
        self.write_padding(content.len())
    }

    /// Pads to a multiple of four bytes.
    fn write_padding(&mut self, written: usize) -> io::Result<()> {
        let padding = written.next_multiple_of(4) - written;
        self.output.write_all([0; 3].get(..padding).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::CpioArchive;

    #[test]
    fn cpio_entries_aligned_to_four_bytes() {
        let mut archive = CpioArchive::new(Vec::new());
        archive.add_folder("a").unwrap();
        archive.add_program("a/program", b"12345").unwrap();
        let bytes = archive.finish().unwrap();
        let field = |entry: usize, number: usize| {
            let at = entry + 6 + 8 * number;
            u32::from_str_radix(std::str::from_utf8(&bytes[at..at + 8]).unwrap(), 16).unwrap()
        };
        let (mut at, mut seen) = (0, Vec::new());
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (size, name_size) = (field(at, 6) as usize, field(at, 11) as usize);
            let content = (at + 110 + name_size).next_multiple_of(4);
            let name = String::from_utf8(bytes[at + 110..at + 110 + name_size - 1].to_vec()).unwrap();
            seen.push((name, field(at, 1), bytes[content..content + size].to_vec()));
            at = (content + size).next_multiple_of(4);
        }
        assert_eq!(
            seen,
            [
                ("a".to_owned(), 0o040_755, vec![]),
                ("a/program".to_owned(), 0o100_755, b"12345".to_vec()),
                ("TRAILER!!!".to_owned(), 0, vec![]),
            ]
        );
    }
}

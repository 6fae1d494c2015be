//! Lines of the tapes written by hand from the tables of `spec/ndl.md` 3 and `spec/abi.md` 4
//! and 5, field by field. They know nothing of the structs that the code fills.

use neuron_ndl::testing::Age;

/// Fields by offset, as the tables list them.
struct Line {
    start: String,
    bytes: Vec<u8>,
    pointers: Vec<usize>,
}

fn line(word: u32, name: &str, size: usize) -> Line {
    Line { start: format!("ioctl {word:08x} {name}"), bytes: vec![0; size], pointers: Vec::new() }
}

impl Line {
    fn u16(mut self, at: usize, value: u16) -> Self {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Self {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn pointer(mut self, at: usize) -> Self {
        self.pointers.push(at);
        self
    }

    /// How a tape shows it: see the format in `testing`.
    fn text(self) -> String {
        let mut text = self.start;
        let mut zeroes = 0;
        let mut groups: Vec<String> = Vec::new();
        for (index, group) in self.bytes.chunks(8).enumerate() {
            if self.pointers.contains(&(index * 8)) {
                groups.push("[pointer]".to_owned());
            } else {
                groups.push(group.iter().map(|byte| format!("{byte:02x}")).collect());
            }
        }
        let flush = |text: &mut String, zeroes: &mut usize| {
            if *zeroes > 2 {
                *text += &format!(" 0*{zeroes}");
            } else {
                *text += &" 0000000000000000".repeat(*zeroes);
            }
            *zeroes = 0;
        };
        for group in groups {
            if group == "0000000000000000" {
                zeroes += 1;
            } else {
                flush(&mut text, &mut zeroes);
                text += " ";
                text += &group;
            }
        }
        flush(&mut text, &mut zeroes);
        text
    }
}

fn tape(age: Age) -> Vec<String> {
    let text = std::fs::read_to_string(super::path(age)).unwrap();
    text.lines().map(|line| line.rsplit_once(": ").map_or(line, |(sent, _)| sent).to_owned()).collect()
}

#[track_caller]
fn expect(tape: &[String], line: Line) -> usize {
    let text = line.text();
    tape.iter().position(|found| *found == text).unwrap_or_else(|| panic!("no line\n{text}"))
}

/// The handle in the first group of the `n`th line that starts so, for commands that name one.
fn handle(tape: &[String], start: &str) -> u64 {
    let line = tape.iter().find(|line| line.starts_with(start)).unwrap();
    let group = line.split(' ').nth(3).unwrap();
    let bytes: Vec<u8> =
        (0..8).map(|index| u8::from_str_radix(&group[index * 2..index * 2 + 2], 16).unwrap()).collect();
    u64::from_le_bytes(bytes.try_into().unwrap())
}

const MIB: u64 = 1 << 20;

#[test]
fn opening_asks_what_the_spec_says_in_its_order() {
    let tape = tape(Age::V2_27_4);
    assert_eq!(tape[..2], ["# open", "open neuron0 Full"]);
    let order = [
        expect(&tape, line(0x8008_4E03, "DEVICE_INFO", 80)),
        expect(&tape, line(0x4008_4E5D, "COMPATIBLE_VERSION", 8)),
        // The size that the argument says it has.
        expect(&tape, line(0x8018_4E6E, "DRIVER_INFO_GET", 24).u32(12, 24)),
        expect(&tape, bounce(0)),
        expect(&tape, bounce(7)),
        // Block HBM 2, id 0, resource DMEM 3.
        expect(&tape, line(0xC020_4E70, "RESOURCE_MMAP_INFO", 32).u32(0, 2).u32(8, 3)),
        expect(&tape, line(0xC020_4E70, "RESOURCE_MMAP_INFO", 32).u32(0, 2).u32(4, 3).u32(8, 3)),
    ];
    assert!(order.is_sorted(), "{order:?}");
}

/// A bounce buffer: 2 MiB of host memory, align, channel and region 0, its core, category 5.
fn bounce(core: u32) -> Line {
    line(0x8038_4E66, "MEM_ALLOC_V2MT64", 56).u64(0, 2 * MIB).u32(16, 1).u32(28, core).u32(32, 5).pointer(40)
}

#[test]
fn allocations_of_every_age_have_the_forms_of_the_spec() {
    // TENSORS_DEVICE in spec/mempool.md 8.
    let category = 9;
    let aligned = |line: Line| line.u64(0, 3 * MIB).u64(8, 0x10000).u32(20, 2).u32(28, 5);
    for (age, line) in [
        (Age::V2_24_7, line(0x8038_4E66, "MEM_ALLOC_V2MT64", 56).u32(32, category).pointer(40)),
        (Age::Before64Bit, line(0x8030_4E66, "MEM_ALLOC_V2MT", 48).u32(32, category).pointer(40)),
        (Age::BeforeCategories, line(0x8008_4E66, "MEM_ALLOC_V2", 40).pointer(32)),
    ] {
        expect(&tape(age), aligned(line));
    }
    // Oldest: size, host, channel, region, core, pointer; no alignment, so the aligned one is not sent.
    let oldest = tape(Age::BeforeAlignment);
    expect(&oldest, line(0x8008_4E15, "MEM_ALLOC", 32).u64(0, 2 * MIB).u32(8, 1).u32(20, 7).pointer(24));
    expect(&oldest, line(0x8008_4E15, "MEM_ALLOC", 32).u64(0, 2 * MIB).u32(20, 1).pointer(24));
    assert!(!oldest.iter().any(|line| line.contains(&hex(3 * MIB))));
}

fn hex(value: u64) -> String {
    value.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Handles of the session's host and device memory, by what is done with them.
fn handles(tape: &[String], copy: &str) -> (u64, u64) {
    let source = handle(tape, copy);
    let line = tape.iter().find(|line| line.starts_with(copy)).unwrap();
    let group = line.split(' ').nth(4).unwrap();
    let destination = u64::from_str_radix(group.get(..2).unwrap(), 16).unwrap();
    (source, destination)
}

#[test]
fn copies_have_64_bits_and_on_old_drivers_32() {
    let new = tape(Age::V2_27_4);
    let (host, hbm) = handles(&new, "ioctl 80284e17");
    let ends = |line: Line| line.u64(0, host).u64(8, hbm);
    let bytes = MIB - 0x1000;
    expect(&new, ends(line(0x8028_4E17, "MEM_COPY64", 40)).u64(16, bytes).u64(24, 0x1000).u64(32, 0x2000));
    let to_host = line(0xC028_4E18, "MEM_BUF_COPY64", 40).u64(0, host).pointer(8).u64(16, MIB).u32(32, 1);
    expect(&new, to_host);
    let fill = line(0x8020_4E1C, "MEMSET64", 32).u64(0, hbm).u64(8, 0x3000).u32(16, 0xA7).u64(24, 0x5000);
    expect(&new, fill);

    let old = tape(Age::Before64Bit);
    let (host, hbm) = handles(&old, "ioctl 80084e17");
    let ends = |line: Line| line.u64(0, host).u64(8, hbm);
    let bytes = bytes as u32;
    expect(&old, ends(line(0x8008_4E17, "MEM_COPY", 32)).u32(16, bytes).u32(20, 0x1000).u32(24, 0x2000));
    let to_host =
        line(0xC008_4E18, "MEM_BUF_COPY", 32).u64(0, host).pointer(8).u32(16, MIB as u32).u32(24, 1);
    expect(&old, to_host);
    let fill = line(0x8008_4E1C, "MEMSET", 24).u64(0, hbm).u64(8, 0x3000).u32(16, 0xA7).u32(20, 0x5000);
    expect(&old, fill);
}

#[test]
fn asynchronous_copies_chain_from_minus_one_over_one_and_two() {
    let new = tape(Age::V2_27_4);
    let (host, hbm) = handles(&new, "ioctl c0384e6c");
    for (part, previous) in [(0_u64, u32::MAX), (1, 1), (2, 2)] {
        let copy = line(0xC038_4E6C, "MEM_COPY_ASYNC64", 56)
            .u64(0, host)
            .u64(8, hbm)
            .u64(16, 0x10000)
            .u64(24, part * 0x10000)
            .u64(32, MIB + part * 0x10000)
            .u32(48, previous);
        expect(&new, copy);
    }
    // Waited for with the same handle on both sides; the third is context 1 again.
    expect(&new, line(0x4018_4E6D, "MEM_COPY_ASYNC_WAIT", 24).u64(0, hbm).u64(8, hbm).u32(16, 1));

    let old = tape(Age::Before64Bit);
    let (host, hbm) = handles(&old, "ioctl c0304e6c");
    let copy = line(0xC030_4E6C, "MEM_COPY_ASYNC", 48)
        .u64(0, host)
        .u64(8, hbm)
        .u32(16, 0x10000)
        .u32(20, 0x10000)
        .u32(24, (MIB + 0x10000) as u32)
        .u32(40, 1);
    expect(&old, copy);

    let oldest = tape(Age::BeforeAlignment);
    assert!(oldest.iter().filter(|line| line.starts_with("ioctl 80084e17 MEM_COPY ")).count() >= 4);
    assert!(!oldest.iter().any(|line| line.contains("ASYNC_WAIT")), "nothing to wait for");
}

#[test]
fn lookups_zero_copies_and_batches_are_laid_out_as_in_the_spec() {
    let new = tape(Age::V2_27_4);
    let (_, hbm) = handles(&new, "ioctl 80284e17");
    expect(&new, line(0x8008_4E19, "MEM_GET_PA", 16).u64(0, hbm).pointer(8));
    expect(&new, line(0x8008_4E1A, "MEM_GET_INFO", 24).u64(0, hbm).pointer(8).pointer(16));
    expect(&new, line(0x8008_4E1D, "MEM_GET_EXTENDED_INFO", 48).u64(0, hbm));
    expect(&new, line(0x8008_4E74, "DUMP_MEM_CHUNKS", 24).pointer(16));
    // Flags 2 for memory, room for 16 processes of 152 bytes behind 16.
    expect(&new, line(0x8008_4E07, "DEVICE_GET_ALL_APPS_INFO", 16 + 16 * 152).u16(0, 2).u32(4, 16));
    let scrub = line(0xC010_4E76, "HBM_SCRUB_START", 16).u32(0, 6).u32(4, 3).u32(12, 0x5A5A_5A5A);
    expect(&new, scrub);
    expect(&new, line(0xC008_4E77, "HBM_SCRUB_WAIT", 8).u32(0, 6).u32(4, 3));
    expect(&new, line(0x8008_4E6B, "DMABUF_FD", 24).pointer(0).u64(8, 8192).pointer(16));
    let zero_copy = |to: u32| {
        line(0xC030_4E7C, "MEM_BUF_ZEROCOPY64", 48)
            .u64(0, hbm)
            .pointer(8)
            .u64(16, 300_001)
            .u64(24, 7)
            .u32(32, to)
            .u32(36, 4096)
            .u32(40, u32::MAX)
    };
    expect(&new, zero_copy(1));
    expect(&new, zero_copy(0));
    // The 48-byte form is sent to drivers that read 40 too.
    let old = tape(Age::V2_24_7);
    assert!(old.iter().any(|line| line.starts_with("ioctl c0304e7c")));

    let batches = |sequence: u64| {
        line(0xC020_4E81, "MEM_BUF_ZEROCOPY64_BATCHES", 32)
            .u64(0, sequence)
            .pointer(8)
            .u32(16, 1)
            .u16(20, 1)
            .u32(24, u32::MAX)
    };
    let at = expect(&new, batches(0));
    let mut batch =
        line(0, "", 40).u64(0, hbm).u64(8, 0x200).pointer(16).u32(24, 2).u16(28, 4096).u64(32, 77);
    batch.start = "  batch".to_owned();
    let mut operation = line(0, "", 24).u64(0, 0x10000).u64(8, 70_000).pointer(16);
    operation.start = "    op".to_owned();
    assert_eq!([&new[at + 1], &new[at + 3]], [&batch.text(), &operation.text()]);
    expect(&new, batches(42));
}

#[test]
fn closing_unmaps_frees_and_closes_in_this_order() {
    let tape = tape(Age::V2_27_4);
    let close = tape.iter().position(|line| line == "# close").unwrap();
    let rest = &tape[close + 1..];
    assert_eq!(rest.last().unwrap(), "close neuron0");
    let count = |start: &str| rest.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("munmap"), 8 + 4, "bounce buffers and HBMs");
    assert_eq!(count("ioctl 80084e16 MEM_FREE"), 8 + 2);
    // Each bounce buffer is unmapped before it is freed.
    for pair in rest.windows(2) {
        if pair[0].starts_with("munmap") && pair[0].ends_with("0x200000") {
            assert!(pair[1].starts_with("ioctl 80084e16"), "{pair:?}");
        }
    }
}

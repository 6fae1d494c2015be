//! The commands against spec/abi.md 3 as it is printed there: words typed in, not computed.

use super::{BASE, Command, Dir, Lane, Release, SIZE_MAX};
use crate::cmd;
use Lane::*;
use Release::*;
use proptest::prelude::*;

type Row = (Command, &'static str, u8, u32, usize, Lane, Release);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (cmd::DEVICE_RESET, "DEVICE_RESET", 1, 0x0000_4E01, 0, Full, V2_24_7),
    (cmd::DEVICE_READY, "DEVICE_READY", 2, 0x8001_4E02, 1, Full, V2_24_7),
    (cmd::DEVICE_INFO, "DEVICE_INFO", 3, 0x8008_4E03, 80, Full, V2_24_7),
    (cmd::DEVICE_INIT, "DEVICE_INIT", 4, 0x8008_4E04, 4, Full, V2_24_7),
    (cmd::DEVICE_RELEASE, "DEVICE_RELEASE", 5, 0x0000_4E05, 0, Full, V2_24_7),
    (cmd::DEVICE_APP_PID, "DEVICE_APP_PID", 6, 0x8004_4E06, 4, Full, V2_24_7),
    (cmd::DEVICE_GET_ALL_APPS_INFO, "DEVICE_GET_ALL_APPS_INFO", 7, 0x8008_4E07, 16, Full, V2_24_7),
    (cmd::BAR_READ, "BAR_READ", 11, 0x8008_4E0B, 32, Full, V2_24_7),
    (cmd::BAR_WRITE, "BAR_WRITE", 12, 0x4008_4E0C, 32, Gated, V2_24_7),
    (cmd::POST_METRIC, "POST_METRIC", 13, 0x4008_4E0D, 16, Gated, V2_24_7),
    (cmd::MEM_ALLOC, "MEM_ALLOC", 21, 0x8008_4E15, 32, Gated, V2_24_7),
    (cmd::MEM_FREE, "MEM_FREE", 22, 0x8008_4E16, 8, Gated, V2_24_7),
    (cmd::MEM_COPY, "MEM_COPY", 23, 0x8008_4E17, 32, Gated, V2_24_7),
    (cmd::MEM_COPY64, "MEM_COPY64", 23, 0x8028_4E17, 40, Full, V2_24_7),
    (cmd::MEM_BUF_COPY, "MEM_BUF_COPY", 24, 0xC008_4E18, 32, Full, V2_24_7),
    (cmd::MEM_BUF_COPY64, "MEM_BUF_COPY64", 24, 0xC028_4E18, 40, Full, V2_24_7),
    (cmd::MEM_GET_PA, "MEM_GET_PA", 25, 0x8008_4E19, 16, Gated, V2_24_7),
    (cmd::MEM_GET_INFO, "MEM_GET_INFO", 26, 0x8008_4E1A, 24, Gated, V2_24_7),
    (cmd::PROGRAM_ENGINE, "PROGRAM_ENGINE", 27, 0xC008_4E1B, 24, Full, V2_24_7),
    (cmd::MEMSET, "MEMSET", 28, 0x8008_4E1C, 24, Full, V2_24_7),
    (cmd::MEMSET64, "MEMSET64", 28, 0x8020_4E1C, 32, Full, V2_24_7),
    (cmd::MEM_GET_EXTENDED_INFO, "MEM_GET_EXTENDED_INFO", 29, 0x8008_4E1D, 48, Full, V2_24_7),
    (cmd::DMA_ENG_INIT, "DMA_ENG_INIT", 30, 0x8008_4E1E, 4, Gated, V2_24_7),
    (cmd::DMA_ENG_SET_STATE, "DMA_ENG_SET_STATE", 31, 0x8008_4E1F, 8, Gated, V2_24_7),
    (cmd::DMA_ENG_GET_STATE, "DMA_ENG_GET_STATE", 32, 0xC008_4E20, 16, Full, V2_24_7),
    (cmd::DMA_QUEUE_INIT, "DMA_QUEUE_INIT", 33, 0x8008_4E21, 48, Gated, V2_24_7),
    (cmd::DMA_QUEUE_RELEASE, "DMA_QUEUE_RELEASE", 34, 0x8008_4E22, 8, Gated, V2_24_7),
    (cmd::DMA_QUEUE_COPY_START, "DMA_QUEUE_COPY_START", 35, 0x8008_4E23, 16, Full, V2_24_7),
    (cmd::DMA_ACK_COMPLETED, "DMA_ACK_COMPLETED", 36, 0x8008_4E24, 12, Gated, V2_24_7),
    (cmd::DMA_QUEUE_GET_STATE, "DMA_QUEUE_GET_STATE", 37, 0xC008_4E25, 24, Full, V2_24_7),
    (cmd::DMA_COPY_DESCRIPTORS, "DMA_COPY_DESCRIPTORS", 38, 0x8008_4E26, 32, Gated, V2_24_7),
    (cmd::DMA_COPY_DESCRIPTORS64, "DMA_COPY_DESCRIPTORS64", 38, 0x8028_4E26, 40, Full, V2_24_7),
    (cmd::DMA_DESCRIPTOR_COPYOUT, "DMA_DESCRIPTOR_COPYOUT", 39, 0xC008_4E27, 32, Full, V2_24_7),
    (cmd::DMA_QUIESCE_QUEUES, "DMA_QUIESCE_QUEUES", 40, 0x8008_4E28, 264, Full, V2_24_7),
    (cmd::SEMAPHORE_INCREMENT, "SEMAPHORE_INCREMENT", 41, 0x8008_4E29, 12, Full, V2_24_7),
    (cmd::SEMAPHORE_DECREMENT, "SEMAPHORE_DECREMENT", 42, 0x8008_4E2A, 12, Full, V2_24_7),
    (cmd::SEMAPHORE_READ, "SEMAPHORE_READ", 43, 0xC008_4E2B, 12, Full, V2_24_7),
    (cmd::SEMAPHORE_WRITE, "SEMAPHORE_WRITE", 44, 0x8008_4E2C, 12, Full, V2_24_7),
    (cmd::EVENT_SET, "EVENT_SET", 45, 0x8008_4E2D, 12, Full, V2_24_7),
    (cmd::EVENT_GET, "EVENT_GET", 46, 0xC008_4E2E, 12, Full, V2_24_7),
    (cmd::NOTIFICATIONS_INIT_V1, "NOTIFICATIONS_INIT_V1", 51, 0x8008_4E33, 24, Gated, V2_24_7),
    (cmd::NOTIFICATIONS_DESTROY_V1, "NOTIFICATIONS_DESTROY_V1", 52, 0x8008_4E34, 8, Full, V2_24_7),
    (cmd::NOTIFICATIONS_INIT_V2, "NOTIFICATIONS_INIT_V2", 53, 0x8008_4E35, 48, Gated, V2_24_7),
    (cmd::NOTIFICATIONS_INIT_WITH_REALLOC_V2, "NOTIFICATIONS_INIT_WITH_REALLOC_V2", 54, 0x8008_4E36, 56, Gated, V2_24_7),
    (cmd::NOTIFICATIONS_QUEUE_INFO, "NOTIFICATIONS_QUEUE_INFO", 58, 0x8008_4E3A, 12, Full, V2_24_7),
    (cmd::READ_HW_COUNTERS, "READ_HW_COUNTERS", 61, 0x8008_4E3D, 24, Full, V2_24_7),
    (cmd::ACQUIRE_NEURON_DS, "ACQUIRE_NEURON_DS", 71, 0x8008_4E47, 24, Full, V2_24_7),
    (cmd::RELEASE_NEURON_DS, "RELEASE_NEURON_DS", 72, 0x8008_4E48, 24, Full, V2_24_7),
    (cmd::CRWL_READER_ENTER, "CRWL_READER_ENTER", 81, 0x4008_4E51, 36, Full, V2_24_7),
    (cmd::CRWL_READER_EXIT, "CRWL_READER_EXIT", 82, 0x4008_4E52, 36, Full, V2_24_7),
    (cmd::CRWL_WRITER_ENTER, "CRWL_WRITER_ENTER", 83, 0x4008_4E53, 36, Full, V2_24_7),
    (cmd::CRWL_WRITER_DOWNGRADE, "CRWL_WRITER_DOWNGRADE", 84, 0x4008_4E54, 36, Full, V2_24_7),
    (cmd::CRWL_NC_RANGE_MARK, "CRWL_NC_RANGE_MARK", 85, 0x4008_4E55, 24, Misc, V2_24_7),
    (cmd::CRWL_NC_RANGE_MARK_EXT0, "CRWL_NC_RANGE_MARK_EXT0", 85, 0xC050_4E55, 80, Misc, V2_24_7),
    (cmd::CRWL_NC_RANGE_UNMARK, "CRWL_NC_RANGE_UNMARK", 86, 0x4008_4E56, 24, Misc, V2_24_7),
    (cmd::CRWL_NC_RANGE_UNMARK_EXT0, "CRWL_NC_RANGE_UNMARK_EXT0", 86, 0x4050_4E56, 80, Misc, V2_24_7),
    (cmd::CINIT_SET_STATE, "CINIT_SET_STATE", 91, 0x4008_4E5B, 12, Full, V2_24_7),
    (cmd::NC_MODEL_STARTED_COUNT, "NC_MODEL_STARTED_COUNT", 92, 0x4008_4E5C, 16, Full, V2_24_7),
    (cmd::COMPATIBLE_VERSION, "COMPATIBLE_VERSION", 93, 0x4008_4E5D, 8, Misc, V2_24_7),
    (cmd::DEVICE_BASIC_INFO, "DEVICE_BASIC_INFO", 100, 0x4008_4E64, 8, Misc, V2_24_7),
    (cmd::DEVICE_BDF, "DEVICE_BDF", 101, 0x8008_4E65, 8, Full, V2_24_7),
    (cmd::MEM_ALLOC_V2, "MEM_ALLOC_V2", 102, 0x8008_4E66, 40, Full, V2_24_7),
    (cmd::MEM_ALLOC_V2MT, "MEM_ALLOC_V2MT", 102, 0x8030_4E66, 48, Full, V2_24_7),
    (cmd::MEM_ALLOC_V2MT64, "MEM_ALLOC_V2MT64", 102, 0x8038_4E66, 56, Full, V2_24_7),
    (cmd::NC_RESET, "NC_RESET", 103, 0x8008_4E67, 8, Full, V2_24_7),
    (cmd::NC_RESET_READY, "NC_RESET_READY", 104, 0x8008_4E68, 8, Full, V2_24_7),
    (cmd::PROGRAM_ENGINE_NC, "PROGRAM_ENGINE_NC", 105, 0xC008_4E69, 32, Full, V2_24_7),
    (cmd::PROGRAM_ENGINE_NC64, "PROGRAM_ENGINE_NC64", 105, 0xC028_4E69, 40, Full, V2_24_7),
    (cmd::DEVICE_RESET_STATUS, "DEVICE_RESET_STATUS", 106, 0x8001_4E6A, 1, Full, V2_24_7),
    (cmd::DEVICE_BDF_EXT, "DEVICE_BDF_EXT", 106, 0x8008_4E6A, 16, Misc, V2_24_7),
    (cmd::DMABUF_FD, "DMABUF_FD", 107, 0x8008_4E6B, 24, Misc, V2_24_7),
    (cmd::MEM_COPY_ASYNC, "MEM_COPY_ASYNC", 108, 0xC030_4E6C, 48, Gated, V2_24_7),
    (cmd::MEM_COPY_ASYNC64, "MEM_COPY_ASYNC64", 108, 0xC038_4E6C, 56, Full, V2_24_7),
    (cmd::MEM_COPY_ASYNC_WAIT, "MEM_COPY_ASYNC_WAIT", 109, 0x4018_4E6D, 24, Gated, V2_24_7),
    (cmd::DRIVER_INFO_GET, "DRIVER_INFO_GET", 110, 0x8018_4E6E, 24, Misc, V2_24_7),
    (cmd::DRIVER_INFO_SET, "DRIVER_INFO_SET", 110, 0x4018_4E6E, 24, GatedThenMisc, V2_24_7),
    (cmd::MEM_MC_GET_INFO, "MEM_MC_GET_INFO", 111, 0xC018_4E6F, 24, Full, V2_24_7),
    (cmd::MEM_MC_GET_INFO_V2, "MEM_MC_GET_INFO_V2", 111, 0xC020_4E6F, 32, Full, V2_24_7),
    (cmd::RESOURCE_MMAP_INFO, "RESOURCE_MMAP_INFO", 112, 0xC020_4E70, 32, Full, V2_24_7),
    (cmd::PRINTK, "PRINTK", 113, 0x4010_4E71, 16, Misc, V2_24_7),
    (cmd::HOST_DEVICE_ID, "HOST_DEVICE_ID", 114, 0x8004_4E72, 4, Full, V2_24_7),
    (cmd::HOST_DEVICE_ID_TO_RID_MAP, "HOST_DEVICE_ID_TO_RID_MAP", 115, 0xC104_4E73, 260, Misc, V2_24_7),
    (cmd::DUMP_MEM_CHUNKS, "DUMP_MEM_CHUNKS", 116, 0x8008_4E74, 24, Full, V2_24_7),
    (cmd::NC_PID_STATE_DUMP, "NC_PID_STATE_DUMP", 117, 0xC010_4E75, 16, Misc, V2_24_7),
    (cmd::HBM_SCRUB_START, "HBM_SCRUB_START", 118, 0xC010_4E76, 16, Full, V2_24_7),
    (cmd::HBM_SCRUB_WAIT, "HBM_SCRUB_WAIT", 119, 0xC008_4E77, 8, Full, V2_24_7),
    (cmd::GET_LOGICAL_TO_PHYSICAL_NC_MAP, "GET_LOGICAL_TO_PHYSICAL_NC_MAP", 120, 0xC010_4E78, 16, Misc, V2_24_7),
    (cmd::POD_INFO, "POD_INFO", 121, 0xC104_4E79, 260, Misc, V2_24_7),
    (cmd::POD_STATUS, "POD_STATUS", 122, 0xC10C_4E7A, 268, Misc, V2_24_7),
    (cmd::POD_STATUS_V2, "POD_STATUS_V2", 122, 0xC114_4E7A, 276, Misc, V2_24_7),
    (cmd::POD_CTRL, "POD_CTRL", 123, 0xC010_4E7B, 16, Misc, V2_24_7),
    (cmd::POD_CTRL_V2, "POD_CTRL_V2", 123, 0xC014_4E7B, 20, Misc, V2_24_7),
    (cmd::MEM_BUF_ZEROCOPY64, "MEM_BUF_ZEROCOPY64", 124, 0xC030_4E7C, 48, Full, V2_25_4),
    (cmd::H2T_DMA_ALLOC_QUEUES, "H2T_DMA_ALLOC_QUEUES", 125, 0xC014_4E7D, 20, Full, V2_25_4),
    (cmd::H2T_DMA_FREE_QUEUES, "H2T_DMA_FREE_QUEUES", 126, 0xC008_4E7E, 8, Full, V2_25_4),
    (cmd::POWER_PROFILE, "POWER_PROFILE", 127, 0x4008_4E7F, 8, Full, V2_25_4),
    (cmd::METRICS_CTRL, "METRICS_CTRL", 128, 0x4004_4E80, 4, Full, V2_25_4),
    (cmd::MEM_BUF_ZEROCOPY64_BATCHES, "MEM_BUF_ZEROCOPY64_BATCHES", 129, 0xC020_4E81, 32, Full, V2_25_4),
    (cmd::THROTTLING_NOTIFICATIONS_CTRL, "THROTTLING_NOTIFICATIONS_CTRL", 130, 0x4004_4E82, 4, Full, V2_27_4),
    (cmd::GET_VA_PLACEMENT, "GET_VA_PLACEMENT", 131, 0x4010_4E83, 16, Misc, V2_27_4),
    (cmd::DMA_QUEUE_INIT_BATCH, "DMA_QUEUE_INIT_BATCH", 133, 0xB008_4E85, 12296, Full, V2_24_7),
    (cmd::GET_ASYNC_H2T_DMA_COMPL_QUEUES, "GET_ASYNC_H2T_DMA_COMPL_QUEUES", 135, 0xC108_4E87, 264, Full, V2_27_4),
];

#[test]
fn every_command_is_the_row_of_the_spec() {
    for &(command, name, nr, word, arg_size, lane, since) in TABLE {
        assert_eq!(command.name, name);
        assert_eq!(command.word, word, "{name}: {:#010x}, spec {word:#010x}", command.word);
        assert_eq!((command.nr(), command.arg_size), (nr, arg_size), "{name}");
        assert_eq!((command.lane, command.since), (lane, since), "{name}");
    }
}

#[test]
fn the_list_holds_the_rows_of_the_spec_and_nothing_else() {
    assert_eq!(cmd::ALL.len(), TABLE.len());
    for (command, _, _, word, ..) in TABLE {
        assert!(cmd::ALL.contains(command));
        assert_eq!(cmd::lookup(*word), Some(command));
    }
}

#[test]
fn the_size_field_is_the_argument_or_a_pointer() {
    for command in cmd::ALL {
        assert!(
            command.size() == command.arg_size || command.size() == 8 && command.arg_size > 0,
            "{}: size field {}, argument {}",
            command.name,
            command.size(),
            command.arg_size,
        );
    }
    assert_eq!((cmd::MEM_COPY.size(), cmd::MEM_COPY.arg_size), (8, 32));
    assert_eq!((cmd::DMA_QUEUE_INIT_BATCH.size(), cmd::DMA_QUEUE_INIT_BATCH.dir()), (12296, Dir::Read));
}

#[test]
fn the_old_zero_copy_word_is_known_but_not_accepted() {
    assert_eq!(cmd::MEM_BUF_ZEROCOPY64_OLD.word, 0xC028_4E7C);
    assert_eq!(cmd::MEM_BUF_ZEROCOPY64_OLD.arg_size, 40);
    assert_eq!(cmd::lookup(cmd::MEM_BUF_ZEROCOPY64_OLD.word), None);
}

#[test]
fn widths_of_a_number_stand_together() {
    let widths: std::vec::Vec<_> = cmd::with_nr(102).map(|command| command.name).collect();
    assert_eq!(widths, ["MEM_ALLOC_V2", "MEM_ALLOC_V2MT", "MEM_ALLOC_V2MT64"]);
    assert_eq!(cmd::with_nr(0).count(), 0);
    assert_eq!(cmd::with_nr(255).count(), 0);
}

#[test]
fn near_misses_are_no_command() {
    let word = cmd::MEM_COPY_ASYNC64.word;
    for other in [word ^ 1 << 30, word + (1 << 16), word ^ 1 << 8, 0, u32::MAX] {
        assert_eq!(cmd::lookup(other), None, "{other:#010x}");
    }
}

proptest! {
    #[test]
    fn fields_of_a_word_are_its_bits(word: u32) {
        let rebuilt = (cmd::dir_of(word) as u32) << 30
            | (cmd::size_of_word(word) as u32) << 16
            | (word >> 8 & 0xFF) << 8
            | u32::from(cmd::nr_of(word));
        prop_assert_eq!(rebuilt, word);
        prop_assert!(cmd::size_of_word(word) <= SIZE_MAX);
        prop_assert_eq!(cmd::is_neuron(word), (word >> 8) as u8 == BASE);
    }

    #[test]
    fn lookup_finds_what_a_scan_finds(nr: u8, size in 0u32..64, dir in 0u32..4) {
        let word = dir << 30 | size << 16 | u32::from(BASE) << 8 | u32::from(nr);
        prop_assert_eq!(cmd::lookup(word), cmd::ALL.iter().find(|command| command.word == word));
    }
}

//! Memory that is shared beyond the device: data stores and dma-bufs (`spec/abi.md` 9.3,
//! 10), and the scrub that wipes what nobody shares any more (`spec/dma-op.md` 11).

use neuron_abi::arg;
use neuron_abi::errno::Errno;
use neuron_abi::limits::DATASTORE_SIZE;

use super::Call;
use crate::dmabuf::DmaBuf;

impl Call<'_> {
    /// Its own store is made for a process that asks with 0; one without a slot would never
    /// give it back (our choice: EACCES).
    pub(super) fn acquire_data_store(&self) -> Result<(), Errno> {
        let arg: arg::NeuronDsInfo = self.read()?;
        let stores = self.device().data_stores();
        let chunk = match arg.pid {
            0 => {
                self.attached()?;
                stores.acquire_own(self.pid)?
            }
            pid => stores.of(pid)?,
        };
        self.reply(&arg::NeuronDsInfo {
            pid: arg.pid,
            mmap_offset: chunk.pa(),
            size: DATASTORE_SIZE as u32,
            ..Default::default()
        })
    }

    /// Only the owner's call has an effect.
    pub(super) fn release_data_store(&self) -> Result<(), Errno> {
        let arg: arg::NeuronDsInfo = self.read()?;
        if arg.pid == 0 || arg.pid == self.pid {
            self.device().data_stores().release(self.pid);
        }
        Ok(())
    }

    pub(super) fn dmabuf_fd(&self) -> Result<(), Errno> {
        let arg: arg::DmabufFd = self.read()?;
        let buffer = DmaBuf::export(self.device().system().mappings(), self.pid, arg.va, arg.size)?;
        let fd = self.user.install(buffer).map_err(|error| match error {
            Errno::EMFILE | Errno::ENOMEM => error,
            _ => Errno::EINVAL,
        })?;
        let told = self.write(arg.fd, &fd);
        if told.is_err() {
            self.user.uninstall(fd);
        }
        told
    }

    /// A scrub ends with its process, so only one whose end shows may start one (our
    /// choice).
    pub(super) fn hbm_scrub_start(&self) -> Result<(), Errno> {
        let arg: arg::HbmScrubStart = self.read()?;
        let core = self.own_core(arg.nc_id)?;
        self.attached()?;
        self.device().start_scrub(core, arg.hbm_index, arg.axi_port, arg.init_val, self.pid)
    }

    pub(super) fn hbm_scrub_wait(&self) -> Result<(), Errno> {
        let arg: arg::HbmScrubWait = self.read()?;
        self.own_core(arg.nc_id)?;
        self.device().wait_scrub(arg.hbm_index, self.pid)
    }
}

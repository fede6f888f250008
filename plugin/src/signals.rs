//! Signals that threads of the plugin do not take.

/// Blocks all signals of this thread and of those that it creates, until it is dropped: the handlers of QEMU expect one of
/// its own threads.
pub struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    pub fn all() -> BlockedSignals {
        // SAFETY: both sets are initialised by the calls before they are read.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            BlockedSignals(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the call above has written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

//! The heap: what the probe allocates between trials. Begun again after every fault.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use linked_list_allocator::Heap;

use super::CoreCell;

/// Bytes: a thousand samples with their lines are some hundred KiB, the longest list of cells 16 KiB.
const BYTES: usize = 2 << 20;

#[repr(C, align(4096))]
struct Memory(MaybeUninit<[u8; BYTES]>);

#[unsafe(link_section = ".noinit")]
static MEMORY: CoreCell<Memory> = CoreCell::new(Memory(MaybeUninit::uninit()));

struct Global(CoreCell<Heap>);

#[global_allocator]
static GLOBAL: Global = Global(CoreCell::new(Heap::empty()));

/// Forgets everything that was allocated.
///
/// # Safety
/// Nobody uses anything that was allocated before any more: not even to drop it.
pub(super) unsafe fn begin() {
    let mut heap = Heap::empty();
    // SAFETY: the memory is `MEMORY`'s alone, and by the caller's promise nobody holds a part of it.
    unsafe {
        heap.init(MEMORY.get().cast(), BYTES);
        *GLOBAL.0.get() = heap;
    }
}

// SAFETY: the blocks are those of a `Heap` over memory that is its own; one core, and nothing that interrupts an
// allocation continues with it (see the head of `super`), so no two calls are ever under way.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: no other reference, as above.
        let heap = unsafe { &mut *self.0.get() };
        heap.allocate_first_fit(layout).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: no other reference, as above; `at` came from `alloc` with this layout, by the caller's promise.
        unsafe {
            if let Some(at) = NonNull::new(at) {
                (*self.0.get()).deallocate(at, layout);
            }
        }
    }
}
